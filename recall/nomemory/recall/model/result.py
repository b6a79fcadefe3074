"""The result of a recall."""

from __future__ import annotations

from dataclasses import dataclass

from nomemory.recall.model.evidence import Evidence
from nomemory.recall.model.limits import Limits
from nomemory.recall.model.memory_view import Conflict, MemoryView, Verdict
from nomemory.recall.model.trace import Step


@dataclass(frozen=True, slots=True)
class RecallResult:
    """A memory view, the evidence best first, what was searched, and the verdict."""

    memory_view: MemoryView
    evidence: tuple[Evidence, ...]
    limits: Limits
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    trace: tuple[Step, ...] = ()
