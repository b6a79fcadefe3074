"""The options that commands share, and how they follow cursors."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

import click

from nomemory.cli.json_lines import JsonLines
from nomemory.cli.output import Output
from nomemory.client.messages import Narrowing, RoleName

Entry = tuple[str, str]
_SPAN: Final = re.compile(r"[0-9]{1,6}[smhdw]")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
FORMS: Final = "a date, a date and time (UTC unless it says otherwise), or how long ago, like 7d, 12h, 30m"
Command = Callable[..., None]
PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Paging:
    """How much of a listing to read: `limit` items (0: all), from a cursor on."""

    limit: int
    cursor: str

    def follow(self, fetch: Callable[..., Any], items: str = "items") -> Iterator[Any]:
        """Fetch page after page until the limit or the end.

        Args:
            fetch: takes `page_size` and `cursor`, and returns a page with a `next_cursor`. The last page is asked for
                short, so that its cursor continues exactly there.
            items: what a page calls what is on it.
        """
        cursor, remaining = self.cursor, self.limit
        while True:
            page = fetch(page_size=min(PAGE_MAX, remaining) if self.limit else PAGE_MAX, cursor=cursor)
            yield page
            cursor, remaining = page.next_cursor, remaining - len(getattr(page, items))
            if not cursor or (self.limit and remaining <= 0):
                return

    def whole(self, fetch: Callable[..., Any], items: str) -> Any:  # noqa: ANN401 - whatever kind of page
        """Do the same, and return all pages as one."""
        whole, *others = self.follow(fetch, items)
        for page in others:
            whole.MergeFrom(page)
            whole.next_cursor = page.next_cursor
        return whole


def entry_option(text: str) -> Entry:
    """Read an entry: the first equals sign ends the key, and the value may be empty.

    Raises:
        click.BadParameter: it is none.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE.")
    return key, value


def entries_by_key(entries: Iterable[Entry]) -> dict[str, str]:
    """Return entries as a filter takes them.

    Raises:
        click.UsageError: one key has two values: no message has both.
    """
    chosen: dict[str, str] = {}
    for key, value in entries:
        if chosen.setdefault(key, value) != value:
            raise click.UsageError(f"--metadata has two values for {key!r}")
    return chosen


def moment_option(text: str) -> datetime:
    """Read a moment. A date is its first instant; a date and a naive time are UTC.

    Raises:
        click.BadParameter: it is none of the forms, or out of range.
    """
    try:
        moment = datetime.now(UTC) - _span(text) if _SPAN.fullmatch(text) else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time: give {FORMS}.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def span_option(text: str) -> timedelta:
    """Read a length of time.

    Raises:
        click.BadParameter: it is not a number with one of the units s, m, h, d, w.
    """
    if _SPAN.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not a length of time: give a number and a unit, like 5m.")
    return _span(text)


def _span(text: str) -> timedelta:
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


user_option = click.option(
    "--user", required=True, metavar="USER", envvar="NOMEMORY_USER", show_envvar=True, help="Whose messages."
)


def time_option(name: str, does: str) -> Callable[[Command], Command]:
    """Return an option that takes a time."""
    return click.option(name, type=moment_option, metavar="TIME", help=does)


def role_option(does: str) -> Callable[[Command], Command]:
    """Return an option that takes a role."""
    return click.option("--role", type=click.Choice(get_args(RoleName)), help=does)


def output_option(command: Command) -> Command:
    """Add --json, and give the command its `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
    @functools.wraps(command)
    def chosen(*, as_json: bool, full: bool = False, **others: object) -> None:
        command(output=_output(as_json=as_json, full=full), **others)

    return chosen


def content_output_option(command: Command) -> Command:
    """Add --json and --full, and give the command its `output`."""
    full = click.option("--full", is_flag=True, help="Show long messages whole.")
    return output_option(full(command))


def narrowing_options(command: Command) -> Command:
    """Add the filter options, and give the command its `narrowing`."""

    @time_option("--since", f"Only what was said at this time or later: {FORMS}.")
    @time_option("--until", "Only what was said before this time; the same forms.")
    @role_option("Only what this side said.")
    @click.option("--conversation", metavar="ID", help="Only this conversation.")
    @click.option(
        "--exclude-conversation",
        "exclude_conversations",
        metavar="ID",
        multiple=True,
        help="Nothing of this conversation. Up to 16 of them.",
    )
    @click.option(
        "--metadata",
        "metadata",
        metavar="KEY=VALUE",
        type=entry_option,
        multiple=True,
        help="Only what has this entry in its metadata. Up to 4 of them: all must hold.",
    )
    @functools.wraps(command)
    def narrowed(
        *,
        since: datetime | None,
        until: datetime | None,
        role: RoleName | None,
        conversation: str | None,
        exclude_conversations: Sequence[str],
        metadata: Sequence[Entry],
        **others: object,
    ) -> None:
        entries = entries_by_key(metadata) or None
        narrowing = Narrowing(
            since=since,
            until=until,
            role=role,
            conversation_id=conversation,
            metadata=entries,
            exclude_conversation_ids=exclude_conversations or None,
        )
        command(narrowing=narrowing, **others)

    return narrowed


def paging_options(noun: str) -> Callable[[Command], Command]:
    """Return what adds the options for listings of something, and gives the command its `paging`."""

    def add(command: Command) -> Command:
        @click.option(
            "--limit",
            type=click.IntRange(min=0),
            default=50,
            show_default=True,
            help=f"How many {noun} to show, over as many pages as that takes. 0: all.",
        )
        @click.option("--cursor", default="", help="Go on where an earlier listing ended.")
        @functools.wraps(command)
        def paged(*, limit: int, cursor: str, **others: object) -> None:
            command(paging=Paging(limit, cursor), **others)

        return paged

    return add


def _output(*, as_json: bool, full: bool) -> Output:
    if as_json:
        return JsonLines()
    from nomemory.cli.console import stderr_console, stdout_console  # noqa: PLC0415 - loads rich
    from nomemory.cli.human import Human  # noqa: PLC0415 - the same

    return Human(stdout_console(), stderr_console(), full=full)
