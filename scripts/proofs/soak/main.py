"""What grows in a server that is busy for long? `scripts/soak --help`.

A server of its own is called until its caches are full, which have bounds. Then it gets the traffic of a chat
product, as much as 70 % of what it could answer, which a short calibration finds out. Every few seconds its memory,
descriptors, threads, segments, files, CPU time and latency are looked at. The data stays the same size. The verdict is
by slope, over the last two thirds of the time: flat if the growth in that time is within the tolerance that the table
names. Latency is shown, but not judged: it depends on what else the machine does. Exits 1 if something grows, or if
calls failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from proofs.server_under_test import ServerUnderTest
from proofs.soak.sample import Sample, Watch
from proofs.soak.traffic import Traffic
from proofs.soak.verdict import Curve, curves

_DIMENSION = 64
_SETTLE_S = 1.0
_ERASE_WITHIN_S = 600
_ROWS = 20
_SHOWN = (
    "memory, MB",
    "descriptors",
    "threads",
    "segments of words",
    "files",
    "data, MB",
    "CPU per call, ms",
    "p50, ms",
    "p99, ms",
    "calls",
)


@dataclass(slots=True)
class Soaked:
    """What came of it."""

    capacity: float = 0.0
    rate: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    left_out: int = 0
    curves: list[Curve] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing grows and no call failed."""
        return not self.errors and all(curve.is_flat for curve in self.curves)


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long the load lasts (default 60)")
    parser.add_argument("--load", type=float, default=0.7, help="share of the capacity (default 0.7)")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds to find the capacity (default 10)")
    parser.add_argument("--warm-up", type=int, default=40_000, help="calls before anything counts (default 40000)")
    parser.add_argument(
        "--every", type=float, default=0.0, help="seconds between two looks (default: 120 looks in all)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="where to write all samples and the verdict")
    return parser.parse_args(given)


async def soak(server: ServerUnderTest, arguments: argparse.Namespace) -> Soaked:
    """Calibrate, keep the load, look at the server."""
    traffic, soaked = Traffic(server.target, _DIMENSION, arguments.seed), Soaked()
    await traffic.open()
    await traffic.warm_up(arguments.warm_up)
    soaked.capacity = await traffic.capacity(arguments.calibrate)
    soaked.rate = arguments.load * soaked.capacity
    await asyncio.sleep(_SETTLE_S)
    traffic.taken()
    began = time.monotonic()
    ends = began + 60 * arguments.minutes
    every = arguments.every or max(1.0, 60 * arguments.minutes / 120)
    watch = Watch(server)
    load = asyncio.create_task(traffic.steady(soaked.rate, ends))
    while time.monotonic() + every <= ends:
        await asyncio.sleep(every)
        waits = traffic.taken()
        soaked.errors = dict(Counter(soaked.errors) + waits.errors)
        soaked.left_out += waits.left_out
        minute = (time.monotonic() - began) / 60
        soaked.samples.append(await asyncio.to_thread(watch.look, minute, waits))
    await load
    await traffic.close()
    soaked.curves = curves(soaked.samples)
    return soaked


def print_report(soaked: Soaked) -> None:
    """Print the curves as a table, thinned out, and the verdict."""
    print(f"\ncapacity {soaked.capacity:.0f} calls/s, load {soaked.rate:.0f} calls/s, {len(soaked.samples)} samples\n")
    print("| minute | " + " | ".join(_SHOWN) + " |\n|" + "---|" * (len(_SHOWN) + 1))
    step = max(1, len(soaked.samples) // _ROWS)
    for sample in soaked.samples[::step]:
        cells = (f"{sample.figures[name]:g}" if name in sample.figures else "" for name in _SHOWN)
        print(f"| {sample.minute} | " + " | ".join(cells) + " |")
    print("\n| figure | first | last | growth by slope | tolerated | |\n|---|---|---|---|---|---|")
    for curve in soaked.curves:
        growth = "too few samples" if curve.growth is None else f"{curve.growth:+.1f}"
        verdict = "flat" if curve.is_flat else "GROWS" if curve.growth is not None else "?"
        print(f"| {curve.name} | {curve.first:g} | {curve.last:g} | {growth} | {curve.tolerance:.1f} | {verdict} |")
    if soaked.left_out:
        print(f"\n{soaked.left_out} calls were not made, because as many as may be waited for an answer")
    if soaked.errors:
        print(f"\nfailed: {dict(soaked.errors)}")
    print("\nflat, nothing failed" if soaked.holds else "\nNOT FLAT, or calls failed")


def main(given: Sequence[str] | None = None) -> int:
    """Run; return 0 if nothing grows and nothing failed."""
    arguments = arguments_of(given)
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        settings = {
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_EMBEDDING_DIMENSION": str(_DIMENSION),
            "NOMEMORY_LOG_LEVEL": "warning",
            # What is replaced and deleted stays in the files until it is wiped: that has to happen within the run.
            "NOMEMORY_ERASE_WITHIN_S": str(_ERASE_WITHIN_S),
        }
        server = ServerUnderTest(Path(root) / "data", settings, Path(root) / "server.log")
        server.start()
        try:
            soaked = asyncio.run(soak(server, arguments))
        finally:
            server.stop()
    print_report(soaked)
    if arguments.json:
        arguments.json.write_text(json.dumps({**asdict(soaked), "holds": soaked.holds}, indent=1), encoding="utf-8")
    return 0 if soaked.holds else 1


if __name__ == "__main__":
    sys.exit(main())
