"""Output for people: one look should be enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli import message_rendering, tables
from nomemory.cli.message_rendering import content, speaker
from nomemory.cli.output import Exported
from nomemory.cli.terminal import one_line
from nomemory.client.search_hits import lexical_hits
from nomemory.importing.upload import Summary
from nomemory.v1 import message_pb2, query_service_pb2, recall_service_pb2

_SPEAKER_CELLS: Final = 10
_ANCHOR: Final = "▸"


class TextOutput:
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

    def show(self, answer: object, *, explain: bool = False) -> None:
        """Show an answer. Explained, a recall shows all the evidence and the limits, too."""
        one_line_each = isinstance(answer, Summary | Exported)
        for shown in self._shown(answer, explain=explain):
            self._console.print(shown, soft_wrap=one_line_each)

    def step(self, step: recall_service_pb2.RecallStep) -> None:
        """Show a step beside the answer."""
        for line in message_rendering.step(step):
            self._notices.print(line)

    def nothing(self) -> None:
        """Say that nothing was found."""
        self._console.print(Text("No messages found.", style="dim"))

    def more(self, cursor: str) -> None:
        """Show the option that goes on from here."""
        self._notices.print(Text(f"There is more: --cursor {cursor}", style="dim"), soft_wrap=True)

    def notice(self, text: str) -> None:
        """Say something beside the answer."""
        self._notices.print(Text(text, style="yellow"), soft_wrap=True)

    def _shown(self, answer: object, *, explain: bool) -> Iterable[RenderableType]:
        match answer:
            case query_service_pb2.ListMessagesResponse() | query_service_pb2.GetNeighborsResponse():
                return self._chat(answer)
            case query_service_pb2.LexicalSearchResponse():
                hits = lexical_hits(answer)
                return (self._hit(hit.message, hit.score, highlight=hit.highlight) for hit in hits)
            case query_service_pb2.SemanticSearchResponse():
                return (self._hit(item.message, item.score) for item in answer.items)
            case query_service_pb2.HybridSearchResponse():
                return self._ranking(answer)
            case recall_service_pb2.RecallResponse():
                return message_rendering.recalled(answer, full=self._full, explain=explain)
            case _:
                return tables.SHOWN[type(answer)](answer)

    def _chat(
        self, reply: query_service_pb2.ListMessagesResponse | query_service_pb2.GetNeighborsResponse
    ) -> Iterator[RenderableType]:
        """Show a heading for each day and conversation, a line for each message; where there is an anchor, mark it."""
        marks = {reply.anchor_index: _ANCHOR} if isinstance(reply, query_service_pb2.GetNeighborsResponse) else None
        for place, message in enumerate(reply.items):
            said = message.ts.ToDatetime(tzinfo=UTC)
            parts = [f"{said:%A} {said.day} {said:%B %Y} UTC", one_line(message.conversation_id)]
            heading = " · ".join(filter(None, parts))
            if heading != self._heading:
                yield Text(f"\n{heading}" if self._heading else heading, style="bold")
                self._heading = heading
            yield self._chat_line(message, None if marks is None else marks.get(place, ""))

    def _chat_line(self, message: message_pb2.ChatMessage, mark: str | None) -> RenderableType:
        said = message.ts.ToDatetime(tzinfo=UTC)
        text = content(message, None, full=self._full).append(f"  {one_line(message.message_id)}", style="dim")
        row: list[RenderableType] = [Text(f"{said:%H:%M}", style="dim"), speaker(message), text]
        line = Table.grid(padding=(0, 1))
        if mark is not None:
            line.add_column(width=1)
            row.insert(0, Text(mark, style="bold yellow"))
        line.add_column(width=5)
        line.add_column(width=_SPEAKER_CELLS, no_wrap=True, overflow="ellipsis")
        line.add_column(ratio=1, overflow="fold")
        line.add_row(*row)
        return line

    def _ranking(self, reply: query_service_pb2.HybridSearchResponse) -> Iterator[RenderableType]:
        """Show the best first, what their scores are made of if that was asked for, and whether they answer."""
        for item in reply.items:
            made_of = " · ".join(f"{one_line(part.name)} {part.value:+.2f}" for part in item.explanation.components)
            yield self._hit(item.message, item.score, made_of=made_of)
        if reply.items:
            yield Text(f"How likely it is that these answer the question: {reply.sufficiency:.0%}", style="dim")

    def _hit(
        self,
        message: message_pb2.ChatMessage,
        score: float,
        *,
        highlight: query_service_pb2.Highlight | None = None,
        made_of: str = "",
    ) -> RenderableType:
        said = message.ts.ToDatetime(tzinfo=UTC)
        facts = [f"{said:%Y-%m-%d %H:%M} UTC", one_line(message.conversation_id), one_line(message.message_id)]
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(justify="right")
        who = Text.assemble(speaker(message), ("  " + " · ".join(filter(None, facts)), "dim"))
        head.add_row(who, Text(f"{score:.3f}", style="dim"))
        why = [Padding(Text(made_of, style="dim"), (0, 0, 0, 2))] if made_of else []
        return Group(head, *why, Padding(content(message, highlight, full=self._full), (0, 0, 1, 2)))
