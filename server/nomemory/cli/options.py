"""The options that commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import get_args

import click

from nomemory.cli.human import Human
from nomemory.cli.json_lines import JsonLines
from nomemory.cli.metadata_entry import Entry, entries_by_key, entry_option
from nomemory.cli.moment import FORMS, moment_option
from nomemory.cli.output import Output
from nomemory.cli.paging import PAGE_MAX, Paging
from nomemory.cli.terminal import stderr_console, stdout_console
from nomemory.client.messages import RoleName
from nomemory.client.options import Narrowing

Command = Callable[..., None]

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
    def chosen(*, as_json: bool, **others: object) -> None:
        command(output=_output(as_json=as_json, full=False), **others)

    return chosen


def content_output_option(command: Command) -> Command:
    """Add --json and --full, and give the command its `output`."""

    @click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")
    @click.option("--full", is_flag=True, help="Show long messages whole.")
    @functools.wraps(command)
    def chosen(*, as_json: bool, full: bool, **others: object) -> None:
        command(output=_output(as_json=as_json, full=full), **others)

    return chosen


def narrowing_options(command: Command) -> Command:
    """Add the filter options, and give the command its `narrowing`."""

    @time_option("--since", f"Only what was said at this time or later: {FORMS}.")
    @time_option("--until", "Only what was said before this time; the same forms.")
    @role_option("Only what this side said.")
    @click.option("--conversation", metavar="ID", help="Only this conversation.")
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
        metadata: Sequence[Entry],
        **others: object,
    ) -> None:
        entries = entries_by_key(metadata) or None
        narrowing = Narrowing(since=since, until=until, role=role, conversation_id=conversation, metadata=entries)
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
        @click.option(
            "--page-size",
            type=click.IntRange(1, PAGE_MAX),
            default=PAGE_MAX,
            show_default=True,
            help="Most in one page.",
        )
        @click.option("--cursor", default="", help="Go on where an earlier listing ended.")
        @functools.wraps(command)
        def paged(*, limit: int, page_size: int, cursor: str, **others: object) -> None:
            command(paging=Paging(limit, page_size, cursor), **others)

        return paged

    return add


def _output(*, as_json: bool, full: bool) -> Output:
    return JsonLines() if as_json else Human(stdout_console(), stderr_console(), full=full)
