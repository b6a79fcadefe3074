"""Human-readable output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nomemory.cli import message_rendering, tables
from nomemory.cli.message_rendering import render_content, render_speaker
from nomemory.cli.output import ExportSummary
from nomemory.cli.terminal import to_single_line
from nomemory.client.search_hits import lexical_hits
from nomemory.importing.upload import ImportSummary
from nomemory.v1 import message_pb2, query_service_pb2, recall_service_pb2

_SPEAKER_CELLS: Final = 10
_ANCHOR: Final = "▸"


class TextOutput:
    """Writes human-readable results, with times in UTC.

    Args:
        notices: the console for notices and for the steps of a recall.
        full: whether long messages are shown in full.
    """

    def __init__(self, console: Console, notices: Console, *, full: bool = False) -> None:
        self._console = console
        self._notices = notices
        self._full = full
        self._heading = ""

    def show(self, answer: object, *, explain: bool = False) -> None:
        """Show a result. `explain` adds all evidence and the limits of a recall."""
        one_line_each = isinstance(answer, ImportSummary | ExportSummary)
        for shown in self._render(answer, explain=explain):
            self._console.print(shown, soft_wrap=one_line_each)

    def show_step(self, step: recall_service_pb2.RecallStep) -> None:
        """Show a recall step on the notice console."""
        for line in message_rendering.render_step(step):
            self._notices.print(line)

    def show_no_results(self) -> None:
        """Report that no messages were found."""
        self._console.print(Text("No messages found.", style="dim"))

    def show_cursor(self, cursor: str) -> None:
        """Show the option for the next page."""
        self._notices.print(Text(f"Next page: --cursor {cursor}", style="dim"), soft_wrap=True)

    def show_notice(self, text: str) -> None:
        """Show a notice."""
        self._notices.print(Text(text, style="yellow"), soft_wrap=True)

    def _render(self, answer: object, *, explain: bool) -> Iterable[RenderableType]:
        match answer:
            case query_service_pb2.ListMessagesResponse() | query_service_pb2.GetNeighborsResponse():
                return self._render_chat(answer)
            case query_service_pb2.LexicalSearchResponse():
                hits = lexical_hits(answer)
                return (self._render_hit(hit.message, hit.score, highlight=hit.highlight) for hit in hits)
            case query_service_pb2.SemanticSearchResponse():
                return (self._render_hit(item.message, item.score) for item in answer.items)
            case query_service_pb2.HybridSearchResponse():
                return self._render_ranking(answer)
            case recall_service_pb2.RecallResponse():
                return message_rendering.render_recall_result(answer, full=self._full, explain=explain)
            case _:
                return tables.RENDERERS[type(answer)](answer)

    def _render_chat(
        self, reply: query_service_pb2.ListMessagesResponse | query_service_pb2.GetNeighborsResponse
    ) -> Iterator[RenderableType]:
        """Render a heading per day and conversation, and a line per message. The anchor message is marked."""
        marks = {reply.anchor_index: _ANCHOR} if isinstance(reply, query_service_pb2.GetNeighborsResponse) else None
        for index, message in enumerate(reply.items):
            sent_at = message.ts.ToDatetime(tzinfo=UTC)
            parts = [f"{sent_at:%A} {sent_at.day} {sent_at:%B %Y} UTC", to_single_line(message.conversation_id)]
            heading = " · ".join(filter(None, parts))
            if heading != self._heading:
                yield Text(f"\n{heading}" if self._heading else heading, style="bold")
                self._heading = heading
            yield self._render_chat_line(message, None if marks is None else marks.get(index, ""))

    def _render_chat_line(self, message: message_pb2.ChatMessage, mark: str | None) -> RenderableType:
        sent_at = message.ts.ToDatetime(tzinfo=UTC)
        text = render_content(message, None, full=self._full).append(
            f"  {to_single_line(message.message_id)}", style="dim"
        )
        row: list[RenderableType] = [Text(f"{sent_at:%H:%M}", style="dim"), render_speaker(message), text]
        line = Table.grid(padding=(0, 1))
        if mark is not None:
            line.add_column(width=1)
            row.insert(0, Text(mark, style="bold yellow"))
        line.add_column(width=5)
        line.add_column(width=_SPEAKER_CELLS, no_wrap=True, overflow="ellipsis")
        line.add_column(ratio=1, overflow="fold")
        line.add_row(*row)
        return line

    def _render_ranking(self, reply: query_service_pb2.HybridSearchResponse) -> Iterator[RenderableType]:
        """Render hits in ranking order, with score components if present, and the sufficiency."""
        for item in reply.items:
            components = " · ".join(
                f"{to_single_line(part.name)} {part.value:+.2f}" for part in item.explanation.components
            )
            yield self._render_hit(item.message, item.score, score_components=components)
        if reply.items:
            yield Text(f"Probability that these messages answer the question: {reply.sufficiency:.0%}", style="dim")

    def _render_hit(
        self,
        message: message_pb2.ChatMessage,
        score: float,
        *,
        highlight: query_service_pb2.Highlight | None = None,
        score_components: str = "",
    ) -> RenderableType:
        sent_at = message.ts.ToDatetime(tzinfo=UTC)
        facts = [
            f"{sent_at:%Y-%m-%d %H:%M} UTC",
            to_single_line(message.conversation_id),
            to_single_line(message.message_id),
        ]
        head = Table.grid(expand=True, padding=(0, 1))
        head.add_column(ratio=1)
        head.add_column(justify="right")
        speaker_and_facts = Text.assemble(render_speaker(message), ("  " + " · ".join(filter(None, facts)), "dim"))
        head.add_row(speaker_and_facts, Text(f"{score:.3f}", style="dim"))
        component_lines = [Padding(Text(score_components, style="dim"), (0, 0, 0, 2))] if score_components else []
        return Group(head, *component_lines, Padding(render_content(message, highlight, full=self._full), (0, 0, 1, 2)))
