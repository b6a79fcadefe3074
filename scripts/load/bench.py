"""Measure the latency and the throughput of reads and writes under load (Linux only).

The benchmark writes a seeded corpus into a new server through the public API. A separate process then calls each read
in closed loops, for typical users and for a heavy user. For reference, the benchmark also measures a server that
replies with prebuilt bytes, and the search engines without gRPC.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
from load.cases import BenchmarkCase, build_cases
from load.closed_loop import LoadOutcome, LoadParameters, run_closed_loop
from load.corpus import CorpusSample, CorpusSize, format_user_id
from load.embedder import measure_embedder
from load.engines import measure_engine_calls
from load.flood import CALLERS, measure_probe_latencies, run_flood, summarize_latencies
from load.http_loop import convert_to_http_request, run_http_loop
from load.ingest import (
    PhaseOutcome,
    insert_into_sqlite,
    measure_single_writes,
    run_import_phase,
    run_write_phase,
    write_at_constant_rate,
)
from load.null_process import NullServers, running_null_servers
from load.null_server import SERVICE
from load.performance_chart import write_charts
from load.postgres_profile import PostgresBenchmark
from load.postgres_report import print_postgres_report
from load.report import print_flood, print_report, print_vector_index_figures
from load.server_process import ServerProcess
from load.usage import measure_cpu_s, measure_pss_mb
from load.vector_index import IndexSize, measure_vector_index

from nomemory.server.store.sqlite.schema import TUNING
from nomemory.v1.query_service_pb2 import ListMessagesRequest

P = ParamSpec("P")
T = TypeVar("T")
Figures = dict[str, Any]

SMALL = CorpusSize(messages=20_000, users=400, heavy=5_000, vectors=2_000)
CONCURRENCIES = (1, 16)

_GROWTH = ("list", "neighbors", "lexical_middle", "lexical_phrase", "semantic")
_UNDER_WRITES = ("list_typical", "lexical_middle_typical")
_WRITES_PER_S = 2000
_SINGLES = 200
_FLOOD_S = 8.0
_OVER_HTTP = ("list_typical", "list_heavy")
_AGAINST_NULL = ("list_typical", "list_heavy", "neighbors_typical", "neighbors_heavy")


class Benchmark:
    """One run of the load benchmark; the load generators run in two separate processes."""

    def __init__(self, arguments: argparse.Namespace, stack: ExitStack) -> None:
        self._size = CorpusSize(arguments.messages, arguments.users, arguments.heavy, arguments.vectors)
        self._seconds: float = arguments.seconds
        self._case_prefixes: list[str] = arguments.cases
        self._keep: Path | None = arguments.keep
        root = Path(stack.enter_context(tempfile.TemporaryDirectory())) if self._keep is None else self._keep
        root.mkdir(parents=True, exist_ok=True)
        self._root = root
        self._load_process, self._background_process = (
            stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(2)
        )
        self._server = ServerProcess(root / "data")
        stack.callback(self._server.stop)
        self.result: Figures = {
            "size": {name: getattr(self._size, name) for name in ("messages", "users", "heavy", "vectors")},
            "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
            "cases": {},
            "errors": {},
        }

    def run(self) -> None:
        """Run all measurements and store the figures in `result`."""
        self._server.start()
        sample = self._write_or_reuse_corpus()
        self.result["memory_idle_mb"] = measure_pss_mb(self._server.list_pids())
        self._measure_reads(sample)
        self.result["memory_mb"] = round(measure_pss_mb(self._server.list_pids())["pss"], 1)
        self.result["memory"] = measure_pss_mb(self._server.list_pids())
        _print_progress("reads during writes …")
        self._measure_reads_while_writing(sample)
        _print_progress("single writes …")
        self._measure_single_writes()
        self._server.stop()
        _print_progress("engines …")
        self.result["engine"] = self._run_in_process(
            measure_engine_calls, self._root / "data", self._select_cases(sample), self._seconds / 2
        )
        _print_progress("startup …")
        self._server.start()
        self.result["start_s"] = round(self._server.start_s, 2)
        self.result["data_mb"] = _measure_data_size_mb(self._root / "data")
        self._server.stop()
        _print_progress("embedder …")
        with tempfile.TemporaryDirectory(dir=self._root) as directory:
            self.result["embedder"] = self._run_in_process(measure_embedder, Path(directory))

    def measure_flood(self) -> None:
        """Measure the latency of reads and health checks, with and without another user who floods the server."""
        self._server.start()
        sample = self._write_or_reuse_corpus()
        floods: Figures = {}
        self.result["flood"] = {"idle": self._measure_probe_latencies(sample), "floods": floods}
        for callers in CALLERS:
            _print_progress(f"flood with {callers} callers …")
            flooding = self._load_process.submit(run_flood, self._server.target, callers, _FLOOD_S * 1.2)
            floods[str(callers)] = self._measure_probe_latencies(sample)
            outcome = flooding.result()
            floods[str(callers)] |= {
                "answered": dict(outcome.answered),
                "errors": dict(outcome.errors),
                "with_retry_info": outcome.with_retry_info,
            }
        self._server.stop()

    def _measure_probe_latencies(self, sample: CorpusSample) -> Figures:
        waits = self._background_process.submit(measure_probe_latencies, self._server.target, sample, _FLOOD_S).result()
        return {name: summarize_latencies(item) for name, item in waits.items()}

    def _run_in_process(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._load_process.submit(job, *args, **kwargs).result()

    def _write_or_reuse_corpus(self) -> CorpusSample:
        """Write the corpus, or reuse the data of an earlier run."""
        kept = self._root / "sample.pickle"
        if kept.exists():
            size, sample, self.result["ingest"], self.result["growth"] = pickle.loads(kept.read_bytes())  # noqa: S301 - written by this script
            if size != self._size:
                raise SystemExit(
                    f"{self._root} contains a corpus of size {size}, expected {self._size}; "
                    "choose another --keep directory"
                )
            return CorpusSample(sample.typical, sample.heavy)
        sample = self._write_corpus()
        kept.write_bytes(pickle.dumps((self._size, sample, self.result["ingest"], self.result["growth"])))
        return sample

    def _write_corpus(self) -> CorpusSample:
        ingest: Figures = {}
        self.result["ingest"] = ingest
        _print_progress("writing 10 % of the messages …")
        before_cpu = self._read_cpu_by_process()
        first = self._run_in_process(run_write_phase, self._server.target, self._size, 0)
        self._server.wait_for_lexical()
        ingest |= _build_ingest_figures("write", first)
        self._server.wait_for_indexes()
        ingest["write_everything_searchable_s"] = round(time.time() - first.began_at, 2)
        ingest["write_cpu_us_per_message"] = self._compute_cpu_per_message(before_cpu, first.messages)
        with tempfile.TemporaryDirectory(dir=self._root) as directory:
            alone = self._run_in_process(insert_into_sqlite, Path(directory) / "plain.db", self._size, 0)
            tuned = self._run_in_process(insert_into_sqlite, Path(directory) / "tuned.db", self._size, 0, TUNING)
        ingest["plain_sqlite_per_s"] = round(first.messages / alone)
        ingest["plain_sqlite_tuned_per_s"] = round(first.messages / tuned)
        ingest["durable_of_plain"] = round(alone / first.seconds, 3)
        before = self._measure_growth_latencies(first.sample)
        _print_progress("importing the remaining messages …")
        before_cpu = self._read_cpu_by_process()
        rest = self._run_in_process(run_import_phase, self._server.target, self._size, 1)
        self._server.wait_for_lexical()
        ingest |= _build_ingest_figures("import", rest)
        self._server.wait_for_indexes()
        ingest["import_everything_searchable_s"] = round(time.time() - rest.began_at, 2)
        ingest["import_cpu_us_per_message"] = self._compute_cpu_per_message(before_cpu, rest.messages)
        after = self._measure_growth_latencies(first.sample)
        self.result["growth"] = {
            name: {
                "p50_ms_at_a_tenth": before[name],
                "p50_ms": after[name],
                "ratio": round(after[name] / before[name], 3),
            }
            for name in before
        }
        return _merge_samples(first.sample, rest.sample)

    def _read_cpu_by_process(self) -> dict[int, float]:
        return {pid: measure_cpu_s([pid]) for pid in self._server.list_pids()}

    def _compute_cpu_per_message(self, before: dict[int, float], messages: int) -> list[int]:
        """Return the CPU time per message of each server process in microseconds, main process first."""
        return [
            round(1e6 * (now - before.get(pid, 0.0)) / messages) for pid, now in self._read_cpu_by_process().items()
        ]

    def _measure_growth_latencies(self, sample: CorpusSample) -> dict[str, float]:
        """Return median read latencies in milliseconds of typical users with messages in the first phase."""
        _print_progress("growth …")
        selected = [case for case in build_cases(sample) if case.name in {f"{read}_typical" for read in _GROWTH}]
        return {case.name: self._measure_case(case, 1).summarize()["p50_ms"] for case in selected}

    def _select_cases(self, sample: CorpusSample) -> list[BenchmarkCase]:
        prefixes = tuple(self._case_prefixes)
        return [case for case in build_cases(sample) if not prefixes or case.name.startswith(prefixes)]

    def _measure_reads(self, sample: CorpusSample) -> None:
        with running_null_servers() as nulls:
            for case in self._select_cases(sample):
                _print_progress(case.name)
                for concurrency in CONCURRENCIES:
                    outcome = self._measure_case(case, concurrency)
                    if outcome.errors:
                        self.result["errors"][case.name] = dict(outcome.errors)
                    if not outcome.waits_ms:
                        break
                    self._record_outcome(case.name, concurrency, outcome)
                    if case.name in _OVER_HTTP:
                        self._measure_http_list(case, concurrency)
                    if case.name in _AGAINST_NULL:
                        self._measure_null_servers(nulls, case.name, concurrency, outcome.summarize()["reply_bytes"])

    def _measure_case(self, case: BenchmarkCase, concurrency: int) -> LoadOutcome:
        pids = self._server.list_pids()
        load = LoadParameters(
            self._server.target, case.method, case.requests, concurrency, self._seconds, pids, case.metadata
        )
        return self._run_in_process(run_closed_loop, load)

    def _measure_http_list(self, case: BenchmarkCase, concurrency: int) -> None:
        """Measure ListMessages over HTTP, directly after the same requests over gRPC."""
        requests = [convert_to_http_request(raw) for raw in case.requests]
        load = LoadParameters(self._server.http, "", requests, concurrency, self._seconds, self._server.list_pids())
        self._record_outcome(f"http_{case.name}", concurrency, self._run_in_process(run_http_loop, load))

    def _measure_null_servers(self, nulls: NullServers, name: str, concurrency: int, size: float) -> None:
        """Measure the null servers directly after the real server, with replies of the real server's size."""
        request = ListMessagesRequest(user_id=format_user_id(1), page_size=int(size)).SerializeToString()
        for prefix, target in (("null", nulls.intercepted), ("null_bare", nulls.bare)):
            load = LoadParameters(target, f"/{SERVICE}/ListMessages", [request], concurrency, self._seconds, nulls.pids)
            self._record_outcome(f"{prefix}_{name}", concurrency, self._run_in_process(run_closed_loop, load))

    def _record_outcome(self, name: str, concurrency: int, outcome: LoadOutcome) -> None:
        self.result["cases"].setdefault(name, {})[str(concurrency)] = outcome.summarize()

    def _measure_reads_while_writing(self, sample: CorpusSample) -> None:
        """Measure the reads of one caller with and without concurrent writes, each for five times `--seconds`."""
        selected = [case for case in build_cases(sample) if case.name in _UNDER_WRITES]
        seconds = 5 * self._seconds
        result: Figures = {"writes_per_s_wanted": _WRITES_PER_S}
        for case in selected:
            load = LoadParameters(
                self._server.target, case.method, case.requests, 1, seconds, self._server.list_pids(), case.metadata
            )
            idle = self._run_in_process(run_closed_loop, load).summarize()
            writing: Future[float] = self._background_process.submit(
                write_at_constant_rate, self._server.target, _WRITES_PER_S, seconds * 1.3
            )
            during_writes = self._run_in_process(run_closed_loop, load).summarize()
            ratio = round(during_writes["p99_ms"] / idle["p99_ms"], 2)
            result[case.name] = {
                "idle": idle,
                "beside_writes": during_writes,
                "p99_ratio": ratio,
                "writes_per_s": round(writing.result()),
            }
            self._server.wait_for_lexical()
        self.result["reads_beside_writes"] = result

    def _measure_single_writes(self) -> None:
        self._server.wait_for_indexes()
        singles = self._run_in_process(measure_single_writes, self._server.target, _SINGLES)
        for name, waits in (("ack", singles.acknowledged_ms), ("visible", singles.visible_ms)):
            p50, p99 = np.percentile(waits, [50, 99])
            self.result["ingest"] |= {
                f"single_{name}_p50_ms": round(float(p50), 2),
                f"single_{name}_p99_ms": round(float(p99), 2),
            }


def _build_ingest_figures(kind: str, loaded: PhaseOutcome) -> Figures:
    searchable = time.time() - loaded.began_at
    return {
        f"{kind}_messages": loaded.messages,
        f"{kind}_durable_per_s": round(loaded.messages / loaded.seconds),
        f"{kind}_searchable_per_s": round(loaded.messages / searchable),
    }


def _merge_samples(first: CorpusSample, rest: CorpusSample) -> CorpusSample:
    return CorpusSample(first.typical | rest.typical, first.heavy + rest.heavy)


def _measure_data_size_mb(data: Path) -> dict[str, float]:
    def get_size(path: Path) -> int:
        return sum(item.stat().st_blocks * 512 for item in path.rglob("*")) if path.is_dir() else path.stat().st_size

    return {path.name: round(get_size(path) / 1e6, 1) for path in sorted(data.iterdir())}


def _print_progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def _parse_folder(text: str) -> Path:
    """Return the path of an existing folder; raise ArgumentTypeError otherwise."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"the folder {text} does not exist")
    return Path(text)


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line of `scripts/bench_load`."""
    parser = argparse.ArgumentParser(prog="scripts/bench_load", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--heavy", type=int, default=100_000, help="number of messages of the heavy user")
    parser.add_argument("--vectors", type=int, default=100_000, help="number of messages with an embedding")
    parser.add_argument("--seconds", type=float, default=2.0, help="duration of each case in seconds")
    parser.add_argument("--cases", nargs="*", default=[], help="names or prefixes of the reads; default: all")
    parser.add_argument("--keep", type=Path, help="data directory, which later runs reuse")
    parser.add_argument("--json", type=Path, help="write the figures to this JSON file")
    parser.add_argument(
        "--charts",
        type=_parse_folder,
        help="write the charts to this folder; docs/charts contains the charts of the documentation",
    )
    parser.add_argument(
        "--flood", action="store_true", help="measure only the effect of a flooding user on other users"
    )
    parser.add_argument(
        "--vector-index", action="store_true", help="measure only the vector index, with random vectors"
    )
    parser.add_argument(
        "--profile",
        choices=("embedded", "postgres"),
        default="embedded",
        help="postgres: compare the embedded profile with servers on a temporary PostgreSQL (default: embedded)",
    )
    parser.add_argument("--small", action="store_true", help="20,000 messages and 0.5 s per case; takes two minutes")
    arguments = parser.parse_args(argv)
    if arguments.small:
        for name in ("messages", "users", "heavy", "vectors"):
            setattr(arguments, name, getattr(SMALL, name))
        arguments.seconds = min(arguments.seconds, 0.5)
    return arguments


def main() -> None:
    """Run the benchmark that the command line selects."""
    arguments = parse_arguments()
    if arguments.vector_index:
        _measure_vector_index(arguments)
        return
    if arguments.profile == "postgres":
        _measure_on_postgres(arguments)
        return
    with ExitStack() as stack:
        bench = Benchmark(arguments, stack)
        if arguments.flood:
            bench.measure_flood()
        else:
            bench.run()
    if arguments.json:
        arguments.json.write_text(json.dumps(bench.result, indent=1, ensure_ascii=False), encoding="utf-8")
    if arguments.charts and not arguments.flood:
        write_charts(bench.result, arguments.charts)
    if arguments.flood:
        print_flood(bench.result)
    else:
        print_report(bench.result)
    if bench.result["errors"]:
        raise SystemExit(f"calls failed: {bench.result['errors']}")


def _measure_on_postgres(arguments: argparse.Namespace) -> None:
    size = CorpusSize(arguments.messages, arguments.users, arguments.heavy, arguments.vectors)
    with ExitStack() as stack:
        profile = PostgresBenchmark(size, arguments.seconds, arguments.cases, stack)
        profile.run()
    if arguments.json:
        arguments.json.write_text(json.dumps(profile.result, indent=1, ensure_ascii=False), encoding="utf-8")
    print_postgres_report(profile.result)


def _measure_vector_index(arguments: argparse.Namespace) -> None:
    size = IndexSize(arguments.vectors, min(arguments.heavy, arguments.vectors // 2))
    with ExitStack() as stack:
        root = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        figures = measure_vector_index(root, size, arguments.seconds)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    print_vector_index_figures(figures)


if __name__ == "__main__":
    main()
