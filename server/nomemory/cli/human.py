"""Output for people: one look should be enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli import figures, memory_text
from nomemory.cli.memory_text import content, speaker
from nomemory.cli.output import Check, Exported
from nomemory.cli.terminal import one_line
from nomemory.client.messages import LexicalHit
from nomemory.importing.upload import Summary
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

_SPEAKER_CELLS: Final = 10
_ANCHOR: Final = "▸"
_MOMENT: Final = "%Y-%m-%d %H:%M:%S"


class Human:
    """Writes to a terminal, or plain text to a pipe. Times are UTC.

    Args:
        console: where answers go.
        notices: where everything else goes.
        full: show long messages whole.
    """

    def __init__(self, console: Console, notices: Console, *, full: bool = False) -> None:
        self._console = console
        self._notices = notices
        self._full = full
        self._heading = ""

    def messages(self, messages: Iterable[message_pb2.ChatMessage]) -> None:
        """Show a chat: a heading for each day and conversation, a line for each message."""
        for message in messages:
            self._chat_line(message)

    def neighbors(self, reply: query_service_pb2.GetNeighborsResponse) -> None:
        """Show a chat with the anchor marked."""
        for place, message in enumerate(reply.items):
            self._chat_line(message, _ANCHOR if place == reply.anchor_index else " ")

    def lexical(self, hits: Iterable[LexicalHit]) -> None:
        """Show the best first, with the matches marked."""
        for hit in hits:
            self._hit(hit.message, hit.score, hit.highlight)

    def semantic(self, items: Iterable[query_service_pb2.SemanticItem]) -> None:
        """Show the nearest first."""
        for item in items:
            self._hit(item.message, item.score, None)

    def hybrid(self, reply: query_service_pb2.HybridSearchResponse) -> None:
        """Show the best first, what their scores are made of if that was asked for, and whether they answer."""
        for item in reply.items:
            self._hit(item.message, item.score, None, figures.explanation(item.explanation))
        if reply.items:
            likely = f"How likely it is that these answer the question: {reply.sufficiency:.0%}"
            self._console.print(Text(likely, style="dim"))

    def nothing(self) -> None:
        """Say that nothing was found."""
        self._console.print(Text("No messages found.", style="dim"))

    def more(self, cursor: str) -> None:
        """Show the option that goes on from here."""
        self._notices.print(Text(f"There is more: --cursor {cursor}", style="dim"), soft_wrap=True)

    def notice(self, text: str) -> None:
        """Say something beside the answer."""
        self._notices.print(Text(text, style="yellow"), soft_wrap=True)

    def status(self, reply: ingest_service_pb2.GetIndexStatusResponse) -> None:
        """Show a table."""
        self._console.print(figures.status(reply))

    def server_info(self, reply: server_service_pb2.GetServerInfoResponse) -> None:
        """Show a table."""
        self._console.print(figures.server_info(reply))

    def deleted(self, reply: ingest_service_pb2.DeleteMessagesResponse) -> None:
        """Say how many are gone, and which were not there."""
        self._console.print(Text(f"Deleted {figures.counted(reply.deleted, 'message')}."))
        for message_id in reply.missing_message_ids:
            self._console.print(Text(f"  There was no {one_line(message_id)}.", style="yellow"))

    def erased(self, reply: ingest_service_pb2.EraseUserResponse) -> None:
        """Say how many are gone, and where bytes of them still are, which no read can reach."""
        at = reply.erase_ts.ToDatetime(tzinfo=UTC)
        self._console.print(Text(f"Erased at {at:{_MOMENT}}: {figures.counted(reply.deleted, 'message')}."))
        if reply.residues:
            self._console.print(Text("No read finds anything of this user. Bytes are still in:"))
        for residue in reply.residues:
            by = f" By {residue.expire_ts.ToDatetime(tzinfo=UTC):{_MOMENT}}." if residue.HasField("expire_ts") else ""
            self._console.print(Padding(Text(f"{residue.place}: {residue.until}{by}", style="dim"), (0, 0, 0, 2)))

    def count(self, messages: int) -> None:
        """Show the count."""
        self._console.print(Text(f"{figures.counted(messages, 'message')}."))

    def conversations(self, conversations: Sequence[query_service_pb2.Conversation]) -> None:
        """Show a table."""
        if conversations:
            self._console.print(figures.conversations(conversations))
        else:
            self._console.print(Text("No conversations found.", style="dim"))

    def users(self, users: Sequence[query_service_pb2.UserSummary]) -> None:
        """Show a table."""
        if users:
            self._console.print(figures.users(users))
        else:
            self._console.print(Text("No user has messages.", style="dim"))

    def exported(self, exported: Exported) -> None:
        """Say what is in the file."""
        held = f"{figures.counted(exported.messages, 'message')} of {figures.counted(exported.users, 'user')}"
        self._console.print(Text(f"{one_line(exported.file)}: {held}."), soft_wrap=True)

    def imported(self, summary: Summary) -> None:
        """Show what became of a file."""
        for line in figures.summary(summary):
            self._console.print(line, soft_wrap=True)

    def recall_step(self, step: recall_service_pb2.RecallStep, *, explain: bool) -> None:
        """Show a step beside the answer, as it happens, where it is asked for."""
        for line in memory_text.step(step) if explain else ():
            self._notices.print(line)

    def recalled(self, reply: recall_service_pb2.RecallResponse, *, explain: bool) -> None:
        """Show the memory view, or else the nearest messages. Explained, show all the evidence and the limits, too."""
        shown = memory_text.explained if explain else memory_text.answer
        for line in shown(reply, full=self._full):
            self._console.print(line)

    def checks(self, checks: Sequence[Check]) -> None:
        """Show a table."""
        self._console.print(figures.checks(checks))

    def _chat_line(self, message: message_pb2.ChatMessage, mark: str = "") -> None:
        said = message.ts.ToDatetime(tzinfo=UTC)
        self._head(said, message.conversation_id)
        text = content(message, None, full=self._full).append(f"  {one_line(message.message_id)}", style="dim")
        row: list[RenderableType] = [Text(f"{said:%H:%M}", style="dim"), speaker(message), text]
        line = Table.grid(padding=(0, 1))
        if mark:
            line.add_column(width=1)
            row.insert(0, Text(mark, style="bold yellow"))
        line.add_column(width=5)
        line.add_column(width=_SPEAKER_CELLS, no_wrap=True, overflow="ellipsis")
        line.add_column(ratio=1, overflow="fold")
        line.add_row(*row)
        self._console.print(line)

    def _head(self, said: datetime, conversation_id: str) -> None:
        parts = [f"{said:%A} {said.day} {said:%B %Y} UTC", one_line(conversation_id)]
        heading = " · ".join(filter(None, parts))
        if heading != self._heading:
            self._console.print(Text(f"\n{heading}" if self._heading else heading, style="bold"))
            self._heading = heading

    def _hit(
        self,
        message: message_pb2.ChatMessage,
        score: float,
        highlight: query_service_pb2.Highlight | None,
        made_of: str = "",
    ) -> None:
        said = message.ts.ToDatetime(tzinfo=UTC)
        facts = [f"{said:%Y-%m-%d %H:%M} UTC", one_line(message.conversation_id), one_line(message.message_id)]
        head = Text.assemble(speaker(message), ("  " + " · ".join(filter(None, facts)), "dim"))
        line = Table.grid(expand=True, padding=(0, 1))
        line.add_column(ratio=1)
        line.add_column(justify="right")
        line.add_row(head, Text(f"{score:.3f}", style="dim"))
        self._console.print(line)
        if made_of:
            self._console.print(Padding(Text(made_of, style="dim"), (0, 0, 0, 2)))
        self._console.print(Padding(content(message, highlight, full=self._full), (0, 0, 1, 2)))
