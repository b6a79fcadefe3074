"""What commands have to show, whatever it is shown as."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from nomemory.client.messages import LexicalHit
from nomemory.importing.upload import Summary
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `advice` says what to do about it; a check that failed or warns always has one."""

    name: str
    state: State
    finding: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Exported:
    """A file, and how many messages of how many users are in it."""

    file: str
    users: int
    messages: int


class Output(Protocol):
    """Shows answers on standard output, and notices on standard error."""

    def messages(self, messages: Iterable[message_pb2.ChatMessage]) -> None:
        """Show messages in the order of time."""

    def neighbors(self, reply: query_service_pb2.GetNeighborsResponse) -> None:
        """Show messages around an anchor."""

    def lexical(self, hits: Iterable[LexicalHit]) -> None:
        """Show what a search for words found."""

    def semantic(self, items: Iterable[query_service_pb2.SemanticItem]) -> None:
        """Show what a search for meaning found."""

    def hybrid(self, reply: query_service_pb2.HybridSearchResponse) -> None:
        """Show what a search for an answer found, and how likely it is that it answers."""

    def nothing(self) -> None:
        """Show that nothing was found."""

    def more(self, cursor: str) -> None:
        """Show how to go on."""

    def notice(self, text: str) -> None:
        """Tell something beside the answer."""

    def status(self, reply: ingest_service_pb2.GetIndexStatusResponse) -> None:
        """Show the state of the log and the indexes."""

    def server_info(self, reply: server_service_pb2.GetServerInfoResponse) -> None:
        """Show what the server is."""

    def deleted(self, reply: ingest_service_pb2.DeleteMessagesResponse) -> None:
        """Show the receipt of a deletion."""

    def erased(self, reply: ingest_service_pb2.EraseUserResponse) -> None:
        """Show the receipt of an erasure."""

    def count(self, messages: int) -> None:
        """Show how many messages there are."""

    def conversations(self, conversations: Sequence[query_service_pb2.Conversation]) -> None:
        """Show conversations, the latest first."""

    def users(self, users: Sequence[query_service_pb2.UserSummary]) -> None:
        """Show who has messages."""

    def exported(self, exported: Exported) -> None:
        """Show what an export wrote."""

    def imported(self, summary: Summary) -> None:
        """Show what became of a file."""

    def recall_step(self, step: recall_service_pb2.RecallStep, *, explain: bool) -> None:
        """Show a step of a recall as it happens."""

    def recalled(self, reply: recall_service_pb2.RecallResponse, *, explain: bool) -> None:
        """Show the answer of a recall. Explained, its trace has the steps."""

    def checks(self, checks: Sequence[Check]) -> None:
        """Show a diagnosis."""
