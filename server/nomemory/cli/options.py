"""Options shared by commands, and pagination."""

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
from nomemory.client.messages import FilterOptions, RoleName

MetadataEntry = tuple[str, str]
_DURATION: Final = re.compile(r"[0-9]{1,6}[smhdw]")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
TIME_FORMATS: Final = "a date, a date and time (UTC by default), or a time span before now, such as 7d, 12h or 30m"
Command = Callable[..., None]
PAGE_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Paging:
    """Pagination options: the maximum number of items (0 for all) and the cursor to start from."""

    limit: int
    cursor: str

    def fetch_pages(self, fetch: Callable[..., Any], items: str = "items") -> Iterator[Any]:
        """Yield pages until the limit or the last page.

        Args:
            fetch: called with `page_size` and `cursor`; returns a page with a `next_cursor`. The size of the last page
                is reduced to the remaining limit, so its cursor continues after the last item shown.
            items: the name of the field with the items of a page.
        """
        cursor, remaining = self.cursor, self.limit
        while True:
            page = fetch(page_size=min(PAGE_MAX, remaining) if self.limit else PAGE_MAX, cursor=cursor)
            yield page
            cursor, remaining = page.next_cursor, remaining - len(getattr(page, items))
            if not cursor or (self.limit and remaining <= 0):
                return

    def fetch_all_items(self, fetch: Callable[..., Any], items: str) -> Any:  # noqa: ANN401 - any page type
        """Fetch all pages up to the limit, and merge them into one."""
        merged, *others = self.fetch_pages(fetch, items)
        for page in others:
            merged.MergeFrom(page)
            merged.next_cursor = page.next_cursor
        return merged


def parse_metadata_entry(text: str) -> MetadataEntry:
    """Parse KEY=VALUE. The first equals sign ends the key; the value may be empty.

    Raises:
        click.BadParameter: the text is not KEY=VALUE.
    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
    return key, value


def build_metadata_filter(entries: Iterable[MetadataEntry]) -> dict[str, str]:
    """Return the metadata entries of a filter as a dictionary.

    Raises:
        click.UsageError: a key has two different values, which no message can match.
    """
    by_key: dict[str, str] = {}
    for key, value in entries:
        if by_key.setdefault(key, value) != value:
            raise click.UsageError(f"--metadata has two different values for {key!r}: no message can match both")
    return by_key


def parse_time(text: str) -> datetime:
    """Parse a date, a date and time, or a time span before now. The default time zone is UTC.

    Raises:
        click.BadParameter: the text is not a time, or is out of range.
    """
    try:
        time = datetime.now(UTC) - _parse_units(text) if _DURATION.fullmatch(text) else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is not a time: use {TIME_FORMATS}.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_MAX_DURATION: Final = timedelta(days=365_000)


def parse_duration(text: str) -> timedelta:
    """Parse a duration, such as `90d`.

    Raises:
        click.BadParameter: the text is not a number followed by s, m, h, d or w, or the duration is too long.
    """
    if _DURATION.fullmatch(text) is None:
        raise click.BadParameter(f"{text!r} is not a duration: use a number and a unit, such as 5m.")
    duration = _parse_units(text)
    if duration > _MAX_DURATION:
        raise click.BadParameter(f"{text!r} is longer than 1,000 years.")
    return duration


def _parse_units(text: str) -> timedelta:
    return timedelta(**{_UNITS[text[-1]]: int(text[:-1])})


user_option = click.option(
    "--user", required=True, metavar="USER", envvar="NOMEMORY_USER", show_envvar=True, help="User id."
)


def time_option(name: str, help_text: str) -> Callable[[Command], Command]:
    """Return an option that takes a time."""
    return click.option(name, type=parse_time, metavar="TIME", help=help_text)


def role_option(help_text: str) -> Callable[[Command], Command]:
    """Return an option that takes a role."""
    return click.option("--role", type=click.Choice(get_args(RoleName)), help=help_text)


def output_option(command: Command) -> Command:
    """Add --json, and pass `output` to the command."""

    @click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
    @functools.wraps(command)
    def wrapper(*, as_json: bool, full: bool = False, **others: object) -> None:
        command(output=_create_output(as_json=as_json, full=full), **others)

    return wrapper


def content_output_option(command: Command) -> Command:
    """Add --json and --full, and pass `output` to the command."""
    full = click.option("--full", is_flag=True, help="Do not shorten long messages.")
    return output_option(full(command))


def filter_options(command: Command) -> Command:
    """Add the filter options, and pass `filters` to the command."""

    @time_option("--since", f"Only messages at or after this time: {TIME_FORMATS}.")
    @time_option("--until", "Only messages before this time; same formats as --since.")
    @role_option("Only messages with this role.")
    @click.option("--conversation", metavar="ID", help="Only messages of this conversation.")
    @click.option(
        "--exclude-conversation",
        "exclude_conversations",
        metavar="ID",
        multiple=True,
        help="Exclude this conversation. May be repeated up to 16 times.",
    )
    @click.option(
        "--metadata",
        "metadata",
        metavar="KEY=VALUE",
        type=parse_metadata_entry,
        multiple=True,
        help="Only messages with this metadata entry. Repeat up to 4 times; all must match.",
    )
    @functools.wraps(command)
    def wrapper(
        *,
        since: datetime | None,
        until: datetime | None,
        role: RoleName | None,
        conversation: str | None,
        exclude_conversations: Sequence[str],
        metadata: Sequence[MetadataEntry],
        **others: object,
    ) -> None:
        filters = FilterOptions(
            since=since,
            until=until,
            role=role,
            conversation_id=conversation,
            metadata=build_metadata_filter(metadata) or None,
            exclude_conversation_ids=exclude_conversations or None,
        )
        command(filters=filters, **others)

    return wrapper


def paging_options(noun: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the pagination options, and passes `paging` to the command."""

    def add_options(command: Command) -> Command:
        @click.option(
            "--limit",
            type=click.IntRange(min=0),
            default=50,
            show_default=True,
            help=f"Maximum number of {noun}; 0 for all.",
        )
        @click.option("--cursor", default="", help="Continue from the cursor of an earlier page.")
        @functools.wraps(command)
        def wrapper(*, limit: int, cursor: str, **others: object) -> None:
            command(paging=Paging(limit, cursor), **others)

        return wrapper

    return add_options


def _create_output(*, as_json: bool, full: bool) -> Output:
    if as_json:
        return JsonLines()
    from nomemory.cli.console import create_stderr_console, create_stdout_console  # noqa: PLC0415 - loads rich
    from nomemory.cli.text_output import TextOutput  # noqa: PLC0415 - loads rich

    return TextOutput(create_stdout_console(), create_stderr_console(), full=full)
