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
AGAIN_S = 30.0
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


def kill_everything(arena: Arena) -> None:
    """Kill all processes of the server."""
    arena.subject.kill()


def _kill_while_starting(arena: Arena) -> None:
    arena.subject.kill()
    arena.subject.subjects[0].start_and_kill(arena.random.uniform(0, 3))


def _kill_writer(arena: Arena) -> None:
    left = {pid for one in arena.subject.subjects for pid in one.kill_writer()}
    if left:
        arena.problems.append(Problem("left behind", f"{len(left)} processes outlive their writer"))


def stop(arena: Arena) -> None:
    """End it as an operator does."""
    arena.subject.stop()


def kill(role: str) -> Callable[[Arena], None]:
    """Kill a process of a role; the server starts it again and goes on."""

    def happen(arena: Arena) -> None:
        pids = arena.subject.processes().get(role, [])
        if not pids:
            arena.problems.append(Problem("no process", f"{role} was not running"))
            return
        os.kill(arena.random.choice(pids), signal.SIGKILL)
        arena.writes_again(AGAIN_S)

    return happen


def _pause(arena: Arena) -> None:
    """Stop a worker for a while; what waits for it has to be done afterwards."""
    pids = [pid for role, some in arena.subject.processes().items() if role != WRITER for pid in some]
    pid = arena.random.choice(pids)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait(arena)
    finally:
        os.kill(pid, signal.SIGCONT)
    arena.writes_again(AGAIN_S)


def _limit_files(arena: Arena) -> None:
    """Let no file grow, neither the log's nor an index's; half of the time the server dies like that."""
    pids = [pid for some in arena.subject.processes().values() for pid in some]
    with files_limited(pids, arena.subject.log.stat().st_size + _ROOM):  # what the server says about it has room
        wait(arena)
        if arena.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            arena.subject.kill()
            return
    arena.writes_again(AGAIN_S)


def _fill_disk(arena: Arena) -> None:
    if arena.disk is None:
        raise RuntimeError("there is no small disk")
    with arena.disk.full():
        wait(arena)
        if arena.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            arena.subject.kill()
    if arena.subject.is_running:
        arena.writes_again(AGAIN_S)


def _endpoint(mood: Mood) -> Callable[[Arena], None]:
    def happen(arena: Arena) -> None:
        arena.mood(mood)
        wait(arena)
        if arena.random.random() < 0.3:  # noqa: PLR2004 - now and then the server dies, too
            arena.subject.kill()
            arena.ensure_running()
            wait(arena)
        arena.mood(Mood.WELL)

    return happen


def qdrant_away(arena: Arena) -> None:
    """Cut all servers off from their Qdrant for a while."""
    if arena.gate is None:
        raise RuntimeError("there is no Qdrant")
    arena.gate.close()
    wait(arena)
    arena.gate.open()


def wait(arena: Arena, share: float = 1.0) -> None:
    """Let a fault last for a while, or for a share of one."""
    time.sleep(share * arena.random.uniform(*_FAULT_S))


def needs(role: str) -> Callable[[Arena], str]:
    """Return what says why an arena without a process of a role cannot go through an ordeal."""

    def why_not(arena: Arena) -> str:
        return "" if role in arena.subject.processes() else f"no {role} with {arena.name}"

    return why_not


def _needs_endpoint(arena: Arena) -> str:
    return "" if arena.endpoint else f"{arena.name} has no embedding endpoint"


ORDEALS = (
    Ordeal("kill -9 of everything", kill_everything),
    Ordeal("kill -9 of the writer", _kill_writer),
    Ordeal("kill -9 of the lexical indexer", kill("lexical indexer"), needs("lexical indexer")),
    Ordeal("kill -9 of the vector worker", kill("vector worker"), needs("vector worker")),
    Ordeal("kill -9 of an embedder worker", kill("embedder worker"), needs("embedder worker")),
    Ordeal("kill -9 while starting", _kill_while_starting),
    Ordeal("SIGTERM", stop),
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
        qdrant_away,
        lambda arena: "" if arena.gate else "needs NOMEMORY_TEST_QDRANT_URL, a Qdrant server that may be written to",
    ),
)
