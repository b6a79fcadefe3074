"""The processes of a server under proof, by what they do."""

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
"""What stands in the command of each."""


def by_role(writer: int) -> dict[str, list[int]]:
    """Return the ids of a server's processes that run, by their role; the one that was started is the writer."""
    found: dict[str, list[int]] = {WRITER: [writer]}
    for pid, command in _below(writer).items():
        role = next((role for role, module in ROLES.items() if module in command), "other")
        found.setdefault(role, []).append(pid)
    return found


def running(pids: set[int]) -> set[int]:
    """Return those of some processes that are there and have not ended."""
    return {pid for pid, (_, state, _) in _all().items() if pid in pids and not state.startswith("Z")}


def _below(parent: int) -> dict[int, str]:
    everything = _all()
    children: Mapping[int, list[int]] = _children(everything)
    found: dict[int, str] = {}
    left = list(children.get(parent, []))
    while left:
        pid = left.pop()
        _, state, command = everything[pid]
        if not state.startswith("Z"):
            found[pid] = command
        left += children.get(pid, [])
    return found


def _children(everything: Mapping[int, tuple[int, str, str]]) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, (parent, _, _) in everything.items():
        children[parent].append(pid)
    return children


def _all() -> dict[int, tuple[int, str, str]]:
    """Return the parent, the state and the command of every process."""
    listed = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],  # noqa: S607 - wherever the system has it; whole lines
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split(None, 3) for line in listed.splitlines()]
    return {int(row[0]): (int(row[1]), row[2], row[3] if len(row) > 3 else "") for row in rows}  # noqa: PLR2004 - columns
