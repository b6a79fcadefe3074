"""The same corpus and the same reads on the embedded profile and on PostgreSQL, one right after the other.

On PostgreSQL the CPU time of the database's processes is counted beside the server's, and what several callers get out
of one server is held against two servers of one database.
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
from load.cases import Case, cases
from load.closed_loop import Load, closed_loop
from load.corpus import HEAVY, Notes, Size
from load.ingest import Loaded, import_phase, single_writes, write_phase
from load.server_process import ServerProcess
from load.usage import family_cpu_s
from load.words import chinese, english

from nomemory.v1 import query_service_pb2 as pb
from proofs.private_postgres import PrivatePostgres, execute, private_postgres

P = ParamSpec("P")
T = TypeVar("T")
Figures = dict[str, Any]

EMBEDDED: Final = "embedded"
POSTGRES: Final = "postgres"
REPLICAS: Final = "two replicas"
CALLERS: Final = (1, 16)
GROWTH: Final = ("list_typical", "neighbors_typical", "lexical_middle_typical", "lexical_phrase_typical")
_TUNING: Final = ("shared_buffers=512MB", "max_connections=200")
"""As in production: what is acknowledged is on the disk."""
_SINGLES = 100
_LONGER = 4.0
"""Times as long: growth is a ratio of two measurements that lie minutes apart."""
_SEARCH: Final = "/nomemory.v1.QueryService/LexicalSearch"
_IN_A_QUESTION = 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where calls go: one server, or two of one database.

    Attributes:
        database: the process of PostgreSQL; 0: there is none.
    """

    name: str
    servers: Sequence[ServerProcess]
    database: int = 0

    @property
    def target(self) -> str:
        """The addresses, as `Load` takes them."""
        return " ".join(server.target for server in self.servers)

    def pids(self) -> list[int]:
        """Return the processes of the servers."""
        return [pid for server in self.servers for pid in server.pids()]

    def load(self, case: Case, callers: int, seconds: float) -> Load:
        """Make a case a load of this place."""
        return Load(
            self.target, case.method, case.requests, callers, seconds, self.pids(), case.metadata, self.database
        )

    def settle(self) -> None:
        """Wait until the indexes of all servers have everything."""
        for server in self.servers:
            server.wait_until_nothing_pends()

    def used(self) -> tuple[float, float]:
        """Return the CPU time that the servers and the database have used."""
        return sum(map(family_cpu_s, (server.pids()[0] for server in self.servers))), family_cpu_s(self.database)


class PostgresProfile:
    """One run."""

    def __init__(self, size: Size, seconds: float, wanted: Sequence[str], stack: ExitStack) -> None:
        self._size = size
        self._seconds = seconds
        self._wanted = wanted
        self._loader = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        self._database = stack.enter_context(private_postgres(_TUNING))
        self._embedded, self._one, self._other = _servers(self._database, stack)
        process = self._database.process_id
        self._alone = (Place(EMBEDDED, [self._embedded]), Place(POSTGRES, [self._one], process))
        self._together = Place(REPLICAS, [self._one, self._other], process)
        self.result: Figures = {
            "size": {name: getattr(size, name) for name in ("messages", "users", "heavy", "vectors")},
            "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
            "ingest": {EMBEDDED: {}, POSTGRES: {}, REPLICAS: {}},
            "growth": {},
            "cases": {},
        }

    def run(self) -> None:
        """Measure everything, in order."""
        self._embedded.start()
        self._one.start()
        first, _ = (self._fill("write", place, write_phase, 0) for place in self._alone)
        before = self._grown(first.notes)
        for place in self._alone:
            self._fill("import", place, import_phase, 1, 0, 2)
        _say("a second replica …")
        self._other.start()
        self._together.settle()
        self._load(import_phase, self._embedded.target, self._size, 1, 1, 2)
        rest = self._fill("import", self._together, import_phase, 1, 1, 2)
        self._alone[0].settle()
        self._grow(before, self._grown(first.notes))
        self._singles()
        self._read(Notes(first.notes.typical | rest.notes.typical, first.notes.heavy + rest.notes.heavy))

    def _fill(self, kind: str, place: Place, job: Callable[..., Loaded], *rest: int) -> Loaded:
        """Have messages written, and wait until they are in all indexes."""
        _say(f"{kind}, {place.name} …")
        server, database = place.used()
        loaded = self._load(job, place.target, self._size, *rest)
        place.settle()
        servers_now, database_now = place.used()
        self.result["ingest"][place.name] |= {
            f"{kind}_per_s": round(loaded.messages / loaded.seconds),
            f"{kind}_server_us": round(1e6 * (servers_now - server) / loaded.messages),
            f"{kind}_database_us": round(1e6 * (database_now - database) / loaded.messages),
        }
        execute(self._database, "VACUUM ANALYZE")  # as autovacuum does soon
        return loaded

    def _grown(self, notes: Notes) -> dict[str, dict[str, Figures]]:
        """Measure the typical users of the first tenth."""
        _say("growth …")
        chosen = [case for case in cases(notes) if case.name in GROWTH]
        return {
            case.name: {place.name: self._measure(place, case, 1, _LONGER) for place in self._alone} for case in chosen
        }

    def _grow(self, before: dict[str, dict[str, Figures]], after: dict[str, dict[str, Figures]]) -> None:
        self.result["growth"] = {
            name: {
                place: {
                    "cpu": round(_cpu_ms(after[name][place]) / max(_cpu_ms(was), 0.001), 3),
                    "p50": round(after[name][place]["p50_ms"] / was["p50_ms"], 3),
                    "before": was,
                    "after": after[name][place],
                }
                for place, was in places.items()
            }
            for name, places in before.items()
        }

    def _singles(self) -> None:
        for place in self._alone:
            singles = self._load(single_writes, place.target, _SINGLES)
            p50, p99 = np.percentile(singles.acknowledged_ms, [50, 99])
            self.result["ingest"][place.name] |= {
                "single_ack_p50_ms": round(float(p50), 2),
                "single_ack_p99_ms": round(float(p99), 2),
            }

    def _read(self, notes: Notes) -> None:
        for case in (*cases(notes), *common_words()):
            if self._wanted and not case.name.startswith(tuple(self._wanted)):
                continue
            _say(case.name)
            for callers in CALLERS:
                places = self._alone if callers == 1 else (*self._alone, self._together)
                figures = {place.name: self._measure(place, case, callers) for place in places}
                self.result["cases"].setdefault(case.name, {})[str(callers)] = figures

    def _measure(self, place: Place, case: Case, callers: int, times: float = 1.0) -> Figures:
        outcome = self._load(closed_loop, place.load(case, callers, times * self._seconds))
        if outcome.errors:
            _say(f"{case.name}, {place.name}: {dict(outcome.errors)}")
        return outcome.figures()

    def _load(self, job: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loader.submit(job, *args, **kwargs).result()


def common_words() -> Iterator[Case]:
    """Return the dearest searches of a heavy user: a phrase of the most common words, and a question of ten words."""
    for name, query in (
        ("lexical_common_phrase_heavy", [f'"{english()[0]} {english()[1]}"', f'"{chinese()[0]}{chinese()[1]}"']),
        ("lexical_question_heavy", [" ".join(english()[:_IN_A_QUESTION]), "".join(chinese()[:_IN_A_QUESTION])]),
    ):
        requests = [pb.LexicalSearchRequest(user_id=HEAVY, query_text=text, page_size=50) for text in query]
        yield Case(name, _SEARCH, [request.SerializeToString() for request in requests], [()])


def _servers(database: PrivatePostgres, stack: ExitStack) -> Sequence[ServerProcess]:
    """Return an embedded server and two of the database. They do not run yet."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    log = {"NOMEMORY_DATABASE_URL": database.url}
    servers = [
        ServerProcess(root / "embedded"),
        ServerProcess(root / "one", variables=log),
        ServerProcess(root / "other", variables=log),
    ]
    for server in servers:
        stack.callback(server.stop)
    return servers


def _cpu_ms(figures: Figures) -> float:
    return float(figures["cpu_ms"] + figures["database_cpu_ms"])


def _say(what: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)
