"""Soak test that detects growth in a server under sustained load: `scripts/soak --help`.

The test starts a server, fills its caches, measures its capacity, and then sends the traffic of a chat product at 70 %
of that capacity. The test samples memory, descriptors, threads, index segments, files, CPU time and latency every few
seconds. The amount of stored data is constant during the test. A figure is flat if its growth over the last two thirds
of the run, estimated by linear regression, is within its tolerance. Latency has no tolerance, because it depends on
other load of the machine. The exit status is 1 if a figure grows or if calls failed.
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
from proofs.soak.sample import Sample, Sampler
from proofs.soak.traffic import TrafficGenerator
from proofs.soak.verdict import GrowthCurve, build_curves

_DIMENSION = 64
_SETTLE_S = 1.0
_ERASE_WITHIN_S = 600
_ROWS = 20
_SHOWN = (
    "memory, MB",
    "descriptors",
    "threads",
    "lexical segments",
    "files",
    "data, MB",
    "CPU per call, ms",
    "p50, ms",
    "p99, ms",
    "calls",
)


@dataclass(slots=True)
class SoakResult:
    """The samples, errors and growth curves of a run.

    Attributes:
        capacity: measured capacity in calls per second.
        rate: load in calls per second.
        errors: number of failed calls by kind and status.
        skipped_calls: number of calls that were skipped because too many were in flight.
        curves: growth of each figure that has a tolerance.
    """

    capacity: float = 0.0
    rate: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    skipped_calls: int = 0
    curves: list[GrowthCurve] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        """Whether all curves are flat and no call failed."""
        return not self.errors and all(curve.is_flat for curve in self.curves)


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="duration of the load (default: 60)")
    parser.add_argument("--load", type=float, default=0.7, help="load as a share of the capacity (default: 0.7)")
    parser.add_argument(
        "--calibrate", type=float, default=10.0, help="duration of the capacity measurement in seconds (default: 10)"
    )
    parser.add_argument("--warm-up", type=int, default=40_000, help="number of warm-up calls (default: 40000)")
    parser.add_argument(
        "--every", type=float, default=0.0, help="seconds between samples (default: 120 samples in total)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write samples and verdict to this JSON file")
    return parser.parse_args(argv)


async def run_soak(server: ServerUnderTest, arguments: argparse.Namespace) -> SoakResult:
    """Measure the capacity, apply the load and sample the server."""
    traffic, result = TrafficGenerator(server.target, _DIMENSION, arguments.seed), SoakResult()
    await traffic.open()
    await traffic.warm_up(arguments.warm_up)
    result.capacity = await traffic.measure_capacity(arguments.calibrate)
    result.rate = arguments.load * result.capacity
    await asyncio.sleep(_SETTLE_S)
    traffic.take_statistics()
    began = time.monotonic()
    ends = began + 60 * arguments.minutes
    every = arguments.every or max(1.0, 60 * arguments.minutes / 120)
    sampler = Sampler(server)
    load = asyncio.create_task(traffic.send_steady_load(result.rate, ends))
    while time.monotonic() + every <= ends:
        await asyncio.sleep(every)
        waits = traffic.take_statistics()
        result.errors = dict(Counter(result.errors) + waits.errors)
        result.skipped_calls += waits.skipped_calls
        minute = (time.monotonic() - began) / 60
        result.samples.append(await asyncio.to_thread(sampler.sample, minute, waits))
    await load
    await traffic.close()
    result.curves = build_curves(result.samples)
    return result


def print_report(result: SoakResult) -> None:
    """Print about 20 samples, the growth of each figure, and the verdict."""
    print(f"\ncapacity {result.capacity:.0f} calls/s, load {result.rate:.0f} calls/s, {len(result.samples)} samples\n")
    print("| minute | " + " | ".join(_SHOWN) + " |\n|" + "---|" * (len(_SHOWN) + 1))
    step = max(1, len(result.samples) // _ROWS)
    for sample in result.samples[::step]:
        cells = (f"{sample.figures[name]:g}" if name in sample.figures else "" for name in _SHOWN)
        print(f"| {sample.minute} | " + " | ".join(cells) + " |")
    print("\n| figure | first | last | growth by regression | tolerance | |\n|---|---|---|---|---|---|")
    for curve in result.curves:
        growth = "too few samples" if curve.growth is None else f"{curve.growth:+.1f}"
        verdict = "flat" if curve.is_flat else "GROWS" if curve.growth is not None else "?"
        print(f"| {curve.name} | {curve.first:g} | {curve.last:g} | {growth} | {curve.tolerance:.1f} | {verdict} |")
    if result.skipped_calls:
        print(f"\n{result.skipped_calls} calls were skipped because too many were in flight")
    if result.errors:
        print(f"\nfailed calls: {dict(result.errors)}")
    print("\nflat, no call failed" if result.has_passed else "\nNOT FLAT, or calls failed")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the soak test; return 0 if all curves are flat and no call failed."""
    arguments = parse_arguments(argv)
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        settings = {
            "NOMEMORY_EMBEDDER": "none",
            "NOMEMORY_EMBEDDING_DIMENSION": str(_DIMENSION),
            "NOMEMORY_LOG_LEVEL": "warning",
            # Deleted data stays in the files until it is erased, which must happen during the run.
            "NOMEMORY_ERASE_WITHIN_S": str(_ERASE_WITHIN_S),
        }
        server = ServerUnderTest(Path(root) / "data", settings, Path(root) / "server.log")
        server.start()
        try:
            result = asyncio.run(run_soak(server, arguments))
        finally:
            server.stop()
    print_report(result)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({**asdict(result), "holds": result.has_passed}, indent=1), encoding="utf-8"
        )
    return 0 if result.has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
