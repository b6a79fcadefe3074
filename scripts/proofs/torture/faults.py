"""Faults that the torture test injects into a server under load."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from proofs.finding import Finding
from proofs.processes import WRITER
from proofs.scripted_endpoint import Behavior
from proofs.torture.disk import CAN_LIMIT, limit_file_size
from proofs.torture.harness import Harness

_FAULT_S = (0.3, 2.0)
RECOVERY_S = 30.0
_ROOM = 512 * 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that a round injects.

    Attributes:
        name: name of the fault in the report.
        inject: function that injects the fault and returns after the fault has ended.
        unsupported_reason: function that returns the reason why a harness does not support the fault; empty if the
            harness supports it.
    """

    name: str
    inject: Callable[[Harness], None]
    unsupported_reason: Callable[[Harness], str] = lambda _: ""


def kill_all_processes(harness: Harness) -> None:
    """Kill all processes of the server."""
    harness.server.kill()


def _kill_while_starting(harness: Harness) -> None:
    harness.server.kill()
    harness.server.servers[0].start_and_kill(harness.random.uniform(0, 3))


def _kill_writer(harness: Harness) -> None:
    survivors = {pid for server in harness.server.servers for pid in server.kill_writer()}
    if survivors:
        harness.findings.append(
            Finding("orphaned process", f"{len(survivors)} workers still run after their main process was killed")
        )


def stop_gracefully(harness: Harness) -> None:
    """Stop the server gracefully."""
    harness.server.stop()


def kill_process(role: str) -> Callable[[Harness], None]:
    """Return a fault that kills a process of a role, which the server must restart."""

    def inject(harness: Harness) -> None:
        pids = harness.server.find_pids_by_role().get(role, [])
        if not pids:
            harness.findings.append(Finding("no process", f"no {role} was running"))
            return
        os.kill(harness.random.choice(pids), signal.SIGKILL)
        harness.check_writes_recover(RECOVERY_S)

    return inject


def _suspend_worker(harness: Harness) -> None:
    """Suspend a worker with SIGSTOP; the server must recover after the fault."""
    pids = [pid for role, group in harness.server.find_pids_by_role().items() if role != WRITER for pid in group]
    pid = harness.random.choice(pids)
    os.kill(pid, signal.SIGSTOP)
    try:
        sleep_fault_duration(harness)
    finally:
        os.kill(pid, signal.SIGCONT)
    harness.check_writes_recover(RECOVERY_S)


def _limit_file_sizes(harness: Harness) -> None:
    """Limit the size of all files; kill the server in half of the cases."""
    pids = [pid for group in harness.server.find_pids_by_role().values() for pid in group]
    with limit_file_size(pids, harness.server.log.stat().st_size + _ROOM):  # leaves space for the log file
        sleep_fault_duration(harness)
        if harness.random.random() < 0.5:  # noqa: PLR2004 - probability
            harness.server.kill()
            return
    harness.check_writes_recover(RECOVERY_S)


def _fill_disk(harness: Harness) -> None:
    if harness.disk is None:
        raise RuntimeError("this fault fills a small file system: pass its directory with --small-disk")
    with harness.disk.fill():
        sleep_fault_duration(harness)
        if harness.random.random() < 0.5:  # noqa: PLR2004 - probability
            harness.server.kill()
    if harness.server.is_running:
        harness.check_writes_recover(RECOVERY_S)


def _set_endpoint_behavior(behavior: Behavior) -> Callable[[Harness], None]:
    def inject(harness: Harness) -> None:
        harness.set_endpoint_behavior(behavior)
        sleep_fault_duration(harness)
        if harness.random.random() < 0.3:  # noqa: PLR2004 - probability
            harness.server.kill()
            harness.ensure_running()
            sleep_fault_duration(harness)
        harness.set_endpoint_behavior(Behavior.NORMAL)

    return inject


def stop_qdrant(harness: Harness) -> None:
    """Interrupt the connections of all servers to Qdrant for a random fault duration."""
    if harness.proxy is None:
        raise RuntimeError("the harness needs a Qdrant server for this fault")
    harness.proxy.interrupt()
    sleep_fault_duration(harness)
    harness.proxy.resume()


def sleep_fault_duration(harness: Harness, share: float = 1.0) -> None:
    """Sleep for a random fault duration, multiplied by `share`."""
    time.sleep(share * harness.random.uniform(*_FAULT_S))


def require_role(role: str) -> Callable[[Harness], str]:
    """Return a `Fault.unsupported_reason` that requires a process of a role."""

    def reason_not_supported(harness: Harness) -> str:
        return "" if role in harness.server.find_pids_by_role() else f"no {role} with {harness.name}"

    return reason_not_supported


def _require_endpoint(harness: Harness) -> str:
    return "" if harness.endpoint else f"{harness.name} has no embedding endpoint"


FAULTS = (
    Fault("kill -9 of everything", kill_all_processes),
    Fault("kill -9 of the writer", _kill_writer),
    Fault("kill -9 of the lexical indexer", kill_process("lexical indexer"), require_role("lexical indexer")),
    Fault("kill -9 of the vector worker", kill_process("vector worker"), require_role("vector worker")),
    Fault("kill -9 of an embedder worker", kill_process("embedder worker"), require_role("embedder worker")),
    Fault("kill -9 while starting", _kill_while_starting),
    Fault("SIGTERM", stop_gracefully),
    Fault("SIGSTOP of a worker", _suspend_worker),
    Fault(
        "file size limited (RLIMIT_FSIZE)",
        _limit_file_sizes,
        lambda _: "" if CAN_LIMIT else "requires Linux, which can set the limits of another process",
    ),
    Fault(
        "disk full (ENOSPC)",
        _fill_disk,
        lambda harness: "" if harness.disk else "requires --small-disk, a directory on a small dedicated file system",
    ),
    *(
        Fault(f"endpoint {behavior.value}", _set_endpoint_behavior(behavior), _require_endpoint)
        for behavior in Behavior
        if behavior is not Behavior.NORMAL
    ),
    Fault(
        "Qdrant unavailable",
        stop_qdrant,
        lambda harness: "" if harness.proxy else "requires NOMEMORY_TEST_QDRANT_URL, a writable Qdrant server",
    ),
)
