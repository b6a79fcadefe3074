"""Faults that are injected into a server under load, one in the middle of each round."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from proofs.finding import Finding
from proofs.processes import WRITER
from proofs.scripted_endpoint import Mood
from proofs.torture.disk import CAN_LIMIT, files_limited
from proofs.torture.harness import Harness

_FAULT_S = (0.3, 2.0)
AGAIN_S = 30.0
_ROOM = 512 * 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        inject: injects it, and returns when it is over.
        why_not: returns why a harness does not support it; empty: it does.
    """

    name: str
    inject: Callable[[Harness], None]
    why_not: Callable[[Harness], str] = lambda _: ""


def kill_everything(harness: Harness) -> None:
    """Kill all processes of the server."""
    harness.server.kill()


def _kill_while_starting(harness: Harness) -> None:
    harness.server.kill()
    harness.server.servers[0].start_and_kill(harness.random.uniform(0, 3))


def _kill_writer(harness: Harness) -> None:
    left = {pid for server in harness.server.servers for pid in server.kill_writer()}
    if left:
        harness.findings.append(Finding("left behind", f"{len(left)} processes outlive their writer"))


def stop(harness: Harness) -> None:
    """End it as an operator does."""
    harness.server.stop()


def kill(role: str) -> Callable[[Harness], None]:
    """Kill a process of a role; the server starts it again and goes on."""

    def inject(harness: Harness) -> None:
        pids = harness.server.processes().get(role, [])
        if not pids:
            harness.findings.append(Finding("no process", f"{role} was not running"))
            return
        os.kill(harness.random.choice(pids), signal.SIGKILL)
        harness.writes_again(AGAIN_S)

    return inject


def _pause(harness: Harness) -> None:
    """Stop a worker for a while; what waits for it has to be done afterwards."""
    pids = [pid for role, some in harness.server.processes().items() if role != WRITER for pid in some]
    pid = harness.random.choice(pids)
    os.kill(pid, signal.SIGSTOP)
    try:
        wait(harness)
    finally:
        os.kill(pid, signal.SIGCONT)
    harness.writes_again(AGAIN_S)


def _limit_files(harness: Harness) -> None:
    """Let no file grow, neither the log's nor an index's; half of the time the server dies like that."""
    pids = [pid for some in harness.server.processes().values() for pid in some]
    with files_limited(pids, harness.server.log.stat().st_size + _ROOM):  # what the server says about it has room
        wait(harness)
        if harness.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            harness.server.kill()
            return
    harness.writes_again(AGAIN_S)


def _fill_disk(harness: Harness) -> None:
    if harness.disk is None:
        raise RuntimeError("there is no small disk")
    with harness.disk.full():
        wait(harness)
        if harness.random.random() < 0.5:  # noqa: PLR2004 - half of the time
            harness.server.kill()
    if harness.server.is_running:
        harness.writes_again(AGAIN_S)


def _endpoint(mood: Mood) -> Callable[[Harness], None]:
    def inject(harness: Harness) -> None:
        harness.mood(mood)
        wait(harness)
        if harness.random.random() < 0.3:  # noqa: PLR2004 - now and then the server dies, too
            harness.server.kill()
            harness.ensure_running()
            wait(harness)
        harness.mood(Mood.WELL)

    return inject


def qdrant_away(harness: Harness) -> None:
    """Cut all servers off from their Qdrant for a while."""
    if harness.proxy is None:
        raise RuntimeError("there is no Qdrant")
    harness.proxy.close()
    wait(harness)
    harness.proxy.open()


def wait(harness: Harness, share: float = 1.0) -> None:
    """Let a fault last for a while, or for a share of one."""
    time.sleep(share * harness.random.uniform(*_FAULT_S))


def needs(role: str) -> Callable[[Harness], str]:
    """Return a function that says why a harness without a process of a role does not support a fault."""

    def why_not(harness: Harness) -> str:
        return "" if role in harness.server.processes() else f"no {role} with {harness.name}"

    return why_not


def _needs_endpoint(harness: Harness) -> str:
    return "" if harness.endpoint else f"{harness.name} has no embedding endpoint"


FAULTS = (
    Fault("kill -9 of everything", kill_everything),
    Fault("kill -9 of the writer", _kill_writer),
    Fault("kill -9 of the lexical indexer", kill("lexical indexer"), needs("lexical indexer")),
    Fault("kill -9 of the vector worker", kill("vector worker"), needs("vector worker")),
    Fault("kill -9 of an embedder worker", kill("embedder worker"), needs("embedder worker")),
    Fault("kill -9 while starting", _kill_while_starting),
    Fault("SIGTERM", stop),
    Fault("SIGSTOP of a worker", _pause),
    Fault(
        "files may not grow (RLIMIT_FSIZE)",
        _limit_files,
        lambda _: "" if CAN_LIMIT else "the limits of another process can be set on Linux only",
    ),
    Fault(
        "disk full (ENOSPC)",
        _fill_disk,
        lambda harness: "" if harness.disk else "needs --small-disk, a directory on a small file system of its own",
    ),
    *(Fault(f"endpoint {mood.value}", _endpoint(mood), _needs_endpoint) for mood in Mood if mood is not Mood.WELL),
    Fault(
        "Qdrant away",
        qdrant_away,
        lambda harness: "" if harness.proxy else "needs NOMEMORY_TEST_QDRANT_URL, a writable Qdrant server",
    ),
)
