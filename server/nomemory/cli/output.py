"""CLI output interface and result types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nomemory.v1 import recall_service_pb2

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a doctor check. For a failure or a warning, `advice` describes the solution."""

    name: str
    state: State
    finding: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The results of all doctor checks."""

    checks: Sequence[CheckResult]


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """A completed export."""

    file: str
    users: int
    messages: int


@dataclass(frozen=True, slots=True)
class MessageCount:
    """The result of `nomemory count`."""

    count: int


class Output(Protocol):
    """Writes results to standard output, and notices to standard error."""

    def show(self, answer: object, *, explain: bool = False) -> None:
        """Show an API response or a result type of this module. `explain` adds the evidence of a recall."""

    def show_step(self, step: recall_service_pb2.RecallStep) -> None:
        """Show a step of a recall as it happens."""

    def show_no_results(self) -> None:
        """Show that a search has no results."""

    def show_cursor(self, cursor: str) -> None:
        """Show the cursor of the next page."""

    def show_notice(self, text: str) -> None:
        """Write a notice to standard error."""
