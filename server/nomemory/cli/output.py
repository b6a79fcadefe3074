"""What commands have to show, whatever it is shown as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nomemory.v1 import recall_service_pb2

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `advice` says what to do about it; a check that failed or warns always has one."""

    name: str
    state: State
    finding: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All findings."""

    checks: Sequence[Check]


@dataclass(frozen=True, slots=True)
class Exported:
    """A file, and how many messages of how many users are in it."""

    file: str
    users: int
    messages: int


class Output(Protocol):
    """Shows answers on standard output, and notices on standard error."""

    def show(self, answer: object, *, explain: bool = False) -> None:
        """Show a reply of the contract, or one of the above. A recall is explained if that is asked for."""

    def step(self, step: recall_service_pb2.RecallStep) -> None:
        """Show a step of a recall as it happens."""

    def nothing(self) -> None:
        """Show that nothing was found."""

    def more(self, cursor: str) -> None:
        """Show how to go on."""

    def notice(self, text: str) -> None:
        """Tell something beside the answer."""
