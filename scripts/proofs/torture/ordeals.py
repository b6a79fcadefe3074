"""What a server has to go through: each ordeal happens once in the middle of a round, under load."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from proofs.problem import Problem
from proofs.processes import WRITER
from proofs.scripted_endpoint import Mood
from proofs.torture.arena import Arena
from proofs.torture.disk import CAN_LIMIT, files_limited

_FAULT_S = (0.3, 2.0)
_AGAIN_S = 30.0
_ROOM = 512 * 1024


@dataclass(frozen=True, slots=True)
class Ordeal:
    """One fault.

    Attributes:
        why_not: returns why an arena cannot go through it; empty: it can.
        happen: makes it happen.
    """

    name: str
    happen: Callable[[Arena], None]
    why_not: Callable[[Arena], str] = lambda _: ""


def _kill_everything(arena: Arena) -> None:
    arena.subject.kill()


def _kill_while_starting(arena: Arena) -> None:
    arena.subject.kill()
    arena.subject.start_and_kill(arena.random.uniform(0, 3))


def _kill_writer(arena: Arena) -> None:
    left = arena.subject.kill_writer()
    if left:
        arena.problems.append(Problem("left behind", f"{len(left)} processes outlive their writer"))


def _stop(arena: Arena) -> None:
    arena.subject.stop()


def _kill(role: str) -> Callable[[Arena], None]:
    def happen(arena: Arena) -> None:
        pids = arena.subject.processes().get(role, [])
        if not pids:
            arena.problems.append(Problem("no process", f"{role} was not running"))
            return
        os.kill(arena.random.choice(pids), signal.SIGKILL)
        arena.writes_again(_AGAIN_S)

    return happen


def _pause(arena: Arena) -> None:
    """Stop a worker for a while; what waits for it has to be done afterwards."""
    pids = [pid for role, some in arena.subject.processes().items() if role != WRITER for pid in some]
    pid = arena.random.choice(pids)
    os.kill(pid, signal.SIGSTOP)
    try:
        _wait(arena)
    finally:
        os.kill(pid, signal.SIGCONT)
    arena.writes_again(_AGAIN_S)


def _limit_files(arena: Arena) -> None:
    """Let no file grow, neither the log's nor an index's; half of the time the server dies like that."""
    pids = [pid for some in arena.subject.processes().values() for pid in some]
    with files_limited(pids, arena.subject.log.stat().st_size + _ROOM):  # what the server says about it has room
        _wait(arena)
        if arena.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            arena.subject.kill()
            return
    arena.writes_again(_AGAIN_S)


def _fill_disk(arena: Arena) -> None:
    if arena.disk is None:
        raise RuntimeError("there is no small disk")
    with arena.disk.full():
        _wait(arena)
        if arena.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            arena.subject.kill()
    if arena.subject.is_running:
        arena.writes_again(_AGAIN_S)


def _endpoint(mood: Mood) -> Callable[[Arena], None]:
    def happen(arena: Arena) -> None:
        arena.mood(mood)
        _wait(arena)
        if arena.random.random() < 0.3:  # noqa: PLR2004 - now and then the server dies, too
            arena.subject.kill()
            arena.ensure_running()
            _wait(arena)
        arena.mood(Mood.WELL)

    return happen


def _qdrant_away(arena: Arena) -> None:
    if arena.gate is None:
        raise RuntimeError("there is no Qdrant")
    arena.gate.close()
    _wait(arena)
    arena.gate.open()


def _wait(arena: Arena) -> None:
    time.sleep(arena.random.uniform(*_FAULT_S))


def _needs(role: str) -> Callable[[Arena], str]:
    def why_not(arena: Arena) -> str:
        return "" if role in arena.subject.processes() else f"no {role} with {arena.name}"

    return why_not


def _needs_endpoint(arena: Arena) -> str:
    return "" if arena.endpoint else f"{arena.name} has no embedding endpoint"


ORDEALS = (
    Ordeal("kill -9 of everything", _kill_everything),
    Ordeal("kill -9 of the writer", _kill_writer),
    Ordeal("kill -9 of a reader", _kill("reader"), _needs("reader")),
    Ordeal("kill -9 of the lexical indexer", _kill("lexical indexer"), _needs("lexical indexer")),
    Ordeal("kill -9 of the vector worker", _kill("vector worker"), _needs("vector worker")),
    Ordeal("kill -9 of an embedder worker", _kill("embedder worker"), _needs("embedder worker")),
    Ordeal("kill -9 while starting", _kill_while_starting),
    Ordeal("SIGTERM", _stop),
    Ordeal("SIGSTOP of a worker", _pause),
    Ordeal(
        "files may not grow (RLIMIT_FSIZE)",
        _limit_files,
        lambda _: "" if CAN_LIMIT else "the limits of another process can be set on Linux only",
    ),
    Ordeal(
        "disk full (ENOSPC)",
        _fill_disk,
        lambda arena: "" if arena.disk else "needs --small-disk, a directory on a small file system of its own",
    ),
    *(Ordeal(f"endpoint {mood.value}", _endpoint(mood), _needs_endpoint) for mood in Mood if mood is not Mood.WELL),
    Ordeal(
        "Qdrant away",
        _qdrant_away,
        lambda arena: "" if arena.gate else "needs NOMEMORY_TEST_QDRANT_URL, a Qdrant server that may be written to",
    ),
)
