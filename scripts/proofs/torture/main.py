"""Torture test that detects lost, duplicated and resurrected messages: `scripts/torture --help`.

Writers and readers call a server continuously, and a ledger records the acknowledged changes. Each round injects a
fault (see `faults.py`). After the round, the stored messages and the results of every read (list, get, lexical and
semantic search, neighbors, export, counts) must match the ledger. Unacknowledged batches must be applied once or not at
all.

If a guarantee is violated, the test prints the findings and exits with 1.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import grpc

from evaluation.temporary_server import ServerStartError
from proofs.fake_qdrant import run_fake_qdrant
from proofs.finding import Finding
from proofs.private_postgres import NOT_INSTALLED, find_program_directory, private_postgres
from proofs.replicas import Replicas
from proofs.scripted_endpoint import ScriptedEndpoint
from proofs.server_under_test import ServerUnderTest
from proofs.torture.disk import SmallDisk
from proofs.torture.faults import FAULTS, Fault
from proofs.torture.harness import Harness
from proofs.torture.ledger import Ledger
from proofs.torture.qdrant_proxy import QdrantProxy
from proofs.torture.replica_faults import DURABLE, LEASE_S, REPLICA_FAULTS
from proofs.torture.tally import Tally

_QDRANT = "NOMEMORY_TEST_QDRANT_URL"
_DIMENSION, _LOCAL_DIMENSION = 8, 384
_LIMIT_S = 120.0
"""Timeout of indexing in seconds."""
_MINUTES = 5.0
_REPLICAS = 2
_SHOWN = 3
_LOCAL_EVERY = 4
"""One in this many rounds uses the local embedder, which is slow."""


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, help="start new rounds for this time (default: 5, or unlimited with --rounds)"
    )
    parser.add_argument("--rounds", type=int, default=0, help="maximum number of rounds (default: unlimited)")
    parser.add_argument(
        "--log",
        choices=("file", "postgres"),
        default="file",
        help="postgres: two servers on one PostgreSQL; faults also affect PostgreSQL, and every second round uses "
        "a shared vector index on Qdrant or on a fake Qdrant server (default: file)",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of all random choices")
    parser.add_argument("--round-seconds", type=float, default=4.0, help="duration of the load of a round (default: 4)")
    parser.add_argument("--writers", type=int, default=3, help="number of concurrent writers (default: 3)")
    parser.add_argument("--only", nargs="+", default=[""], help="only faults whose name contains one of these texts")
    parser.add_argument(
        "--embedder", choices=("all", "endpoint", "local"), default="all", help="embedder (default: both alternately)"
    )
    parser.add_argument("--small-disk", type=Path, help="directory on a small file system, which the test fills")
    parser.add_argument("--keep", type=Path, help="keep data directories and logs in this folder")
    return parser.parse_args(argv)


class TortureTest:
    """A run of the torture test."""

    def __init__(self, arguments: argparse.Namespace, root: Path, stack: ExitStack) -> None:
        self._arguments = arguments
        self._root = root
        self._stack = stack
        self._random = random.Random(arguments.seed)  # noqa: S311 - repeatable, not secret
        self.harnesses = list(self._create_harnesses())
        self.tally = Tally()

    def run(self) -> bool:
        """Run all rounds; return whether there are no findings."""
        arguments = self._arguments
        minutes: float = arguments.minutes or (math.inf if arguments.rounds else _MINUTES)
        ends = time.monotonic() + 60 * minutes
        turn = 0
        while time.monotonic() < ends and turn != (arguments.rounds or -1):
            self._run_round(turn)
            turn += 1
        for harness in self.harnesses:
            harness.ensure_running()
            harness.verify_users(harness.list_users())
            harness.server.stop()
        return not any(harness.findings for harness in self.harnesses)

    def _run_round(self, turn: int) -> None:
        harness = self._choose_harness(turn)
        harness.ensure_running()
        fault = self._choose_fault(harness)
        acknowledged, refused, findings = harness.acknowledged_changes, harness.refusals, len(harness.findings)
        before, seconds = harness.hash_states(), self._arguments.round_seconds
        with harness.apply_load():
            time.sleep(self._random.uniform(0.2, 0.8) * seconds)
            fault.inject(harness)
            harness.ensure_running()
            time.sleep(0.2 * seconds)
        began = time.monotonic()
        harness.ensure_running()
        harness.retry_unacknowledged_batches()
        harness.verify_users(harness.select_users(before))
        new_findings = harness.findings[findings:]
        self.tally.add_round(
            fault.name,
            harness.acknowledged_changes - acknowledged,
            harness.refusals - refused,
            time.monotonic() - began,
            new_findings,
        )
        _print_progress(
            f"round {turn + 1}, {harness.name}: {fault.name}: "
            f"{harness.stored_messages} stored, {len(new_findings)} findings"
        )
        for finding in new_findings[:_SHOWN]:
            _print_progress(f"  {finding.kind}: {finding.description}")

    def _choose_harness(self, turn: int) -> Harness:
        """Return the harness of a round; the local embedder is used less often."""
        others = [harness for harness in self.harnesses if harness.name != "local"]
        if not others or (turn % _LOCAL_EVERY == _LOCAL_EVERY - 1 and len(others) < len(self.harnesses)):
            return self.harnesses[-1]
        return others[turn % len(others)]

    def _choose_fault(self, harness: Harness) -> Fault:
        """Return a random fault among those with the fewest rounds."""
        faults = REPLICA_FAULTS if harness.database else FAULTS
        selected = [fault for fault in faults if any(item in fault.name for item in self._arguments.only)]
        for fault in selected:
            self.tally.record_support(fault.name, fault.unsupported_reason(harness))
        possible = [fault for fault in selected if not fault.unsupported_reason(harness)]
        if not possible:
            raise SystemExit(
                f"--only {' '.join(self._arguments.only)}: no matching fault is available with {harness.name}"
            )
        fewest = min(self.tally.count_rounds(fault.name) for fault in possible)
        return self._random.choice([item for item in possible if self.tally.count_rounds(item.name) == fewest])

    def _create_harnesses(self) -> Iterator[Harness]:
        if self._arguments.log == "postgres":
            yield self._create_postgres_harness("postgres")
            url = os.environ.get(_QDRANT) or self._stack.enter_context(run_fake_qdrant()).url
            yield self._create_postgres_harness(
                "postgres, one Qdrant", self._stack.enter_context(QdrantProxy(url).serve())
            )
            return
        embedder = self._arguments.embedder
        if embedder in ("all", "endpoint"):
            yield self._create_endpoint_harness("endpoint")
            if qdrant_url := os.environ.get(_QDRANT):
                yield self._create_endpoint_harness(
                    "qdrant", self._stack.enter_context(QdrantProxy(qdrant_url).serve())
                )
        if embedder in ("all", "local") and sys.platform == "linux":
            settings = {"NOMEMORY_EMBEDDER": "local"}
            yield Harness(
                "local",
                self._create_server("local", settings),
                _LOCAL_DIMENSION,
                0.97,
                300.0,
                self._random,
                self._create_ledgers(),
            )

    def _create_endpoint_harness(self, name: str, proxy: QdrantProxy | None = None) -> Harness:
        endpoint = self._stack.enter_context(ScriptedEndpoint(_DIMENSION).serve())
        settings = self._build_embedding_settings(endpoint) | ({"NOMEMORY_QDRANT_URL": proxy.url} if proxy else {})
        disk = SmallDisk(self._arguments.small_disk) if self._arguments.small_disk else None
        server = self._create_server(name, settings, disk.path if disk and not proxy else self._root)
        disk = None if proxy else disk
        return Harness(
            name, server, _DIMENSION, 0.3, _LIMIT_S, self._random, self._create_ledgers(), endpoint, proxy, disk
        )

    def _create_postgres_harness(self, name: str, proxy: QdrantProxy | None = None) -> Harness:
        """Return a harness of two servers on one PostgreSQL; with a proxy, they share a vector index on Qdrant."""
        endpoint = self._stack.enter_context(ScriptedEndpoint(_DIMENSION).serve())
        database = self._stack.enter_context(private_postgres(DURABLE))
        settings = self._build_embedding_settings(endpoint)
        settings |= {"NOMEMORY_DATABASE_URL": database.url, "NOMEMORY_INDEXER_LOCK_LEASE_S": LEASE_S}
        if proxy is not None:
            settings |= {"NOMEMORY_QDRANT_URL": proxy.url, "NOMEMORY_QDRANT_SHARD_KEYS": "8"}
        servers = [
            self._create_server(f"replica{number}{'-shared' * bool(proxy)}", settings) for number in range(_REPLICAS)
        ]
        return Harness(
            name,
            Replicas(servers),
            _DIMENSION,
            0.3,
            _LIMIT_S,
            self._random,
            self._create_ledgers(),
            endpoint,
            proxy,
            database=database,
        )

    def _build_embedding_settings(self, endpoint: ScriptedEndpoint) -> dict[str, str]:
        return {
            "NOMEMORY_EMBEDDER": "openai",
            "NOMEMORY_EMBEDDING_MODEL": f"torture-{self._arguments.seed}",
            "NOMEMORY_EMBEDDING_DIMENSION": str(_DIMENSION),
            "NOMEMORY_EMBEDDING_TIMEOUT_S": "2",
            "OPENAI_BASE_URL": endpoint.url,
            "OPENAI_API_KEY": "none",
        }

    def _create_ledgers(self) -> list[Ledger]:
        return [Ledger() for _ in range(self._arguments.writers)]

    def _create_server(self, name: str, settings: dict[str, str], root: Path | None = None) -> ServerUnderTest:
        environment = {"NOMEMORY_LOG_LEVEL": "warning", **settings}
        data = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=root or self._root))
        if not self._arguments.keep:
            self._stack.callback(shutil.rmtree, data, ignore_errors=True)
        server = ServerUnderTest(data / "data", environment, self._root / f"{name}.log")
        self._stack.callback(lambda: server.kill() if server.is_running else None)
        return server


def _print_progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the torture test; return 0 if there are no findings."""
    arguments = parse_arguments(argv)
    if arguments.log == "postgres" and find_program_directory() is None:
        raise SystemExit(NOT_INSTALLED)
    with ExitStack() as stack:
        root = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="torture-")))
        root.mkdir(parents=True, exist_ok=True)
        torture = TortureTest(arguments, root, stack)
        try:
            holds = torture.run()
        except ServerStartError:
            holds = False  # the harness has recorded the error
        except grpc.RpcError as error:
            holds = False
            torture.harnesses[0].findings.append(Finding("failed", f"{error.code().name}: {error.details()}"))
        torture.tally.print_report(torture.harnesses, arguments.seed)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
