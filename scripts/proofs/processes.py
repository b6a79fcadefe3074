"""Processes of a server under test, by role."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Mapping

WRITER = "writer"
ROLES = {
    "vector worker": "semantic.edge.worker",
    "lexical indexer": "indexing.lexical.worker",
    "embedder worker": "embedding.local_worker",
}
"""Part of the command line that identifies each role."""


def find_pids_by_role(writer: int) -> dict[str, list[int]]:
    """Return the ids of the running processes of a server by role; `writer` is the id of its main process."""
    pids_by_role: dict[str, list[int]] = {WRITER: [writer]}
    for pid, command in _find_descendants(writer).items():
        role = next((role for role, module in ROLES.items() if module in command), "other")
        pids_by_role.setdefault(role, []).append(pid)
    return pids_by_role


def select_running_pids(pids: set[int]) -> set[int]:
    """Return the given process ids that belong to running processes."""
    return {pid for pid, (_, state, _) in _read_all_processes().items() if pid in pids and not state.startswith("Z")}


def _find_descendants(parent: int) -> dict[int, str]:
    everything = _read_all_processes()
    children: Mapping[int, list[int]] = _group_children_by_parent(everything)
    descendants: dict[int, str] = {}
    pending = list(children.get(parent, []))
    while pending:
        pid = pending.pop()
        _, state, command = everything[pid]
        if not state.startswith("Z"):
            descendants[pid] = command
        pending += children.get(pid, [])
    return descendants


def _group_children_by_parent(everything: Mapping[int, tuple[int, str, str]]) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, (parent, _, _) in everything.items():
        children[parent].append(pid)
    return children


def _read_all_processes() -> dict[int, tuple[int, str, str]]:
    """Return the parent, state and command line of every process by id."""
    output = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],  # noqa: S607 - system program; -ww prints whole lines
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split(None, 3) for line in output.splitlines()]
    return {int(row[0]): (int(row[1]), row[2], row[3] if len(row) > 3 else "") for row in rows}  # noqa: PLR2004 - columns
