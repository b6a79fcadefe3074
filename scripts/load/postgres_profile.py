"""Compare the embedded profile with PostgreSQL on the same corpus and reads.

On PostgreSQL, the CPU time includes the database processes. Reads with several callers are measured with one server and
with two servers of one database.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
from load.cases import BenchmarkCase, build_cases
from load.closed_loop import LoadParameters, run_closed_loop
from load.corpus import HEAVY, CorpusSample, CorpusSize
from load.ingest import PhaseOutcome, measure_single_writes, run_import_phase, run_write_phase
from load.server_process import ServerProcess
from load.usage import measure_tree_cpu_s
from load.words import build_chinese_vocabulary, build_english_vocabulary

from nomemory.v1 import query_service_pb2 as pb
from proofs.private_postgres import PrivatePostgres, execute_statement, private_postgres

P = ParamSpec("P")
T = TypeVar("T")
Figures = dict[str, Any]

EMBEDDED: Final = "embedded"
POSTGRES: Final = "postgres"
REPLICAS: Final = "two replicas"
CALLERS: Final = (1, 16)
GROWTH: Final = ("list_typical", "neighbors_typical", "lexical_middle_typical", "lexical_phrase_typical")
_TUNING: Final = ("shared_buffers=512MB", "max_connections=200")
"""Server options; durability settings stay at their defaults, as in production."""
_SINGLES = 100
_LONGER = 4.0
"""Duration factor of growth measurements, which compare two measurements that are minutes apart."""
_SEARCH: Final = "/nomemory.v1.QueryService/LexicalSearch"
_IN_A_QUESTION = 10


@dataclass(frozen=True, slots=True)
class Deployment:
    """The servers under test: one server, or two servers with the same database.

    Attributes:
        name: label of the deployment in the results.
        database: process id of the PostgreSQL postmaster; 0 without PostgreSQL.
    """

    name: str
    servers: Sequence[ServerProcess]
    database: int = 0

    @property
    def target(self) -> str:
        """HOST:PORT of all servers, separated by spaces."""
        return " ".join(server.target for server in self.servers)

    def list_pids(self) -> list[int]:
        """Return the ids of all server processes."""
        return [pid for server in self.servers for pid in server.list_pids()]

    def build_load(self, case: BenchmarkCase, callers: int, seconds: float) -> LoadParameters:
        """Return the closed-loop load of a case on this deployment."""
        return LoadParameters(
            self.target, case.method, case.requests, callers, seconds, self.list_pids(), case.metadata, self.database
        )

    def wait_for_indexes(self) -> None:
        """Wait until the indexes of all servers are up to date."""
        for server in self.servers:
            server.wait_until_idle()

    def measure_cpu_s(self) -> tuple[float, float]:
        """Return the CPU time in seconds of the servers and of the database."""
        return sum(map(measure_tree_cpu_s, (server.list_pids()[0] for server in self.servers))), measure_tree_cpu_s(
            self.database
        )


class PostgresBenchmark:
    """One comparison of the embedded profile with one server and with two servers on PostgreSQL."""

    def __init__(self, size: CorpusSize, seconds: float, case_prefixes: Sequence[str], stack: ExitStack) -> None:
        self._size = size
        self._seconds = seconds
        self._case_prefixes = case_prefixes
        self._load_process = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        self._database = stack.enter_context(private_postgres(_TUNING))
        self._embedded, self._primary, self._secondary = _create_servers(self._database, stack)
        process = self._database.process_id
        self._single_servers = (Deployment(EMBEDDED, [self._embedded]), Deployment(POSTGRES, [self._primary], process))
        self._replicas = Deployment(REPLICAS, [self._primary, self._secondary], process)
        self.result: Figures = {
            "size": {name: getattr(size, name) for name in ("messages", "users", "heavy", "vectors")},
            "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
            "ingest": {EMBEDDED: {}, POSTGRES: {}, REPLICAS: {}},
            "growth": {},
            "cases": {},
        }

    def run(self) -> None:
        """Run all measurements and store the figures in `result`."""
        self._embedded.start()
        self._primary.start()
        first, _ = (
            self._measure_writes("write", deployment, run_write_phase, 0) for deployment in self._single_servers
        )
        before = self._measure_growth_cases(first.sample)
        for deployment in self._single_servers:
            self._measure_writes("import", deployment, run_import_phase, 1, 0, 2)
        _print_progress("starting the second replica …")
        self._secondary.start()
        self._replicas.wait_for_indexes()
        self._run_in_process(run_import_phase, self._embedded.target, self._size, 1, 1, 2)
        rest = self._measure_writes("import", self._replicas, run_import_phase, 1, 1, 2)
        self._single_servers[0].wait_for_indexes()
        self._record_growth(before, self._measure_growth_cases(first.sample))
        self._measure_single_writes()
        self._measure_reads(
            CorpusSample(first.sample.typical | rest.sample.typical, first.sample.heavy + rest.sample.heavy)
        )

    def _measure_writes(
        self, kind: str, deployment: Deployment, job: Callable[..., PhaseOutcome], *rest: int
    ) -> PhaseOutcome:
        """Write messages and wait until all indexes are up to date; record throughput and CPU time."""
        _print_progress(f"{kind}, {deployment.name} …")
        server, database = deployment.measure_cpu_s()
        loaded = self._run_in_process(job, deployment.target, self._size, *rest)
        deployment.wait_for_indexes()
        servers_now, database_now = deployment.measure_cpu_s()
        self.result["ingest"][deployment.name] |= {
            f"{kind}_per_s": round(loaded.messages / loaded.seconds),
            f"{kind}_server_us": round(1e6 * (servers_now - server) / loaded.messages),
            f"{kind}_database_us": round(1e6 * (database_now - database) / loaded.messages),
        }
        execute_statement(self._database, "VACUUM ANALYZE")  # as autovacuum would do
        return loaded

    def _measure_growth_cases(self, sample: CorpusSample) -> dict[str, dict[str, Figures]]:
        """Measure reads of typical users whose messages are in the first 10 % of the corpus."""
        _print_progress("growth …")
        selected = [case for case in build_cases(sample) if case.name in GROWTH]
        return {
            case.name: {
                deployment.name: self._measure_case(deployment, case, 1, _LONGER) for deployment in self._single_servers
            }
            for case in selected
        }

    def _record_growth(self, before: dict[str, dict[str, Figures]], after: dict[str, dict[str, Figures]]) -> None:
        self.result["growth"] = {
            name: {
                deployment: {
                    "cpu": round(_sum_cpu_ms(after[name][deployment]) / max(_sum_cpu_ms(earlier), 0.001), 3),
                    "p50": round(after[name][deployment]["p50_ms"] / earlier["p50_ms"], 3),
                    "before": earlier,
                    "after": after[name][deployment],
                }
                for deployment, earlier in deployments.items()
            }
            for name, deployments in before.items()
        }

    def _measure_single_writes(self) -> None:
        for deployment in self._single_servers:
            singles = self._run_in_process(measure_single_writes, deployment.target, _SINGLES)
            p50, p99 = np.percentile(singles.acknowledged_ms, [50, 99])
            self.result["ingest"][deployment.name] |= {
                "single_ack_p50_ms": round(float(p50), 2),
                "single_ack_p99_ms": round(float(p99), 2),
            }

    def _measure_reads(self, sample: CorpusSample) -> None:
        for case in (*build_cases(sample), *build_common_word_cases()):
            if self._case_prefixes and not case.name.startswith(tuple(self._case_prefixes)):
                continue
            _print_progress(case.name)
            for callers in CALLERS:
                deployments = self._single_servers if callers == 1 else (*self._single_servers, self._replicas)
                figures = {deployment.name: self._measure_case(deployment, case, callers) for deployment in deployments}
                self.result["cases"].setdefault(case.name, {})[str(callers)] = figures

    def _measure_case(self, deployment: Deployment, case: BenchmarkCase, callers: int, times: float = 1.0) -> Figures:
        outcome = self._run_in_process(run_closed_loop, deployment.build_load(case, callers, times * self._seconds))
        if outcome.errors:
            _print_progress(f"{case.name}, {deployment.name}: {dict(outcome.errors)}")
        return outcome.summarize()

    def _run_in_process(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._load_process.submit(job, *args, **kwargs).result()


def build_common_word_cases() -> Iterator[BenchmarkCase]:
    """Yield the slowest searches of the heavy user: a phrase of common words, and a question of ten common words."""
    for name, query in (
        (
            "lexical_common_phrase_heavy",
            [
                f'"{build_english_vocabulary()[0]} {build_english_vocabulary()[1]}"',
                f'"{build_chinese_vocabulary()[0]}{build_chinese_vocabulary()[1]}"',
            ],
        ),
        (
            "lexical_question_heavy",
            [
                " ".join(build_english_vocabulary()[:_IN_A_QUESTION]),
                "".join(build_chinese_vocabulary()[:_IN_A_QUESTION]),
            ],
        ),
    ):
        requests = [pb.LexicalSearchRequest(user_id=HEAVY, query_text=text, page_size=50) for text in query]
        yield BenchmarkCase(name, _SEARCH, [request.SerializeToString() for request in requests], [()])


def _create_servers(database: PrivatePostgres, stack: ExitStack) -> Sequence[ServerProcess]:
    """Return an embedded server and two servers on PostgreSQL, without starting them."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    log = {"NOMEMORY_DATABASE_URL": database.url}
    servers = [
        ServerProcess(root / "embedded"),
        ServerProcess(root / "first", variables=log),
        ServerProcess(root / "second", variables=log),
    ]
    for server in servers:
        stack.callback(server.stop)
    return servers


def _sum_cpu_ms(figures: Figures) -> float:
    return float(figures["cpu_ms"] + figures["database_cpu_ms"])


def _print_progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)
