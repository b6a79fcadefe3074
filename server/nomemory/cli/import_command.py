"""`nomemory import`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from nomemory.cli.connection import client_option
from nomemory.cli.console import stderr_console
from nomemory.cli.options import TIME_FORMATS, output_option, parse_duration, parse_time
from nomemory.cli.output import Output
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.importing.file_order import FileOrder
from nomemory.importing.files import STDIN, Source
from nomemory.importing.formats import FORMATS, detect, load_format, read_records
from nomemory.importing.progress import indexing_progress, progress
from nomemory.importing.record import Format, ImportDefaults, ParseResult, Rejected
from nomemory.importing.rejects import Rejects, rejects_path
from nomemory.importing.upload import Summary, Upload, wait_until_indexed
from nomemory.server.runtime.extension_point import ExtensionError
from nomemory.v1 import ingest_service_pb2


def parse_format(name: str) -> str:
    """Check for click that there is a format of this name.

    Raises:
        click.BadParameter: there is none.
    """
    try:
        load_format(name)
    except ExtensionError as error:
        raise click.BadParameter(f"{error}.") from None
    return name


def parse_time_zone(text: str) -> tzinfo:
    """Read an IANA name such as `Asia/Shanghai`.

    Raises:
        click.BadParameter: there is no such zone.
    """
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        raise click.BadParameter(f"{text!r} is no time zone; try one like Europe/Berlin.") from None


@click.command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option("--user", default="", metavar="USER", help="Whose messages these are, whatever the file says.")
@click.option(
    "--format",
    "name",
    type=parse_format,
    metavar="NAME",
    help=f"What the files are: {', '.join(FORMATS)}. Default: found out from each file.",
)
@click.option(
    "--start", type=parse_time, metavar="TIME", help=f"When the first message without a time was said: {TIME_FORMATS}."
)
@click.option(
    "--step", type=parse_duration, metavar="SPAN", default="1s", show_default=True, help="Time between such messages."
)
@click.option(
    "--time-zone", type=parse_time_zone, metavar="NAME", help="Where times without a zone were said: Asia/Shanghai."
)
@click.option("--replace", is_flag=True, help="Let a message take the place of another one with the same id.")
@click.option("--dry-run", is_flag=True, help="Read and check the files, store nothing.")
@click.option("--wait", is_flag=True, help="Wait until the indexes have caught up.")
@click.option(
    "--timeout", type=parse_duration, metavar="SPAN", default="10m", show_default=True, help="How long to wait at most."
)
@client_option
@output_option
def import_(  # noqa: PLR0913 - a parameter for each option
    *,
    files: Sequence[str],
    user: str,
    name: str | None,
    start: datetime | None,
    step: timedelta,
    time_zone: tzinfo | None,
    replace: bool,
    dry_run: bool,
    wait: bool,
    timeout: timedelta,
    client: Client,
    output: Output,
) -> None:
    """Store the messages of files; - is standard input.

    Takes JSON Lines with the contract's field names, OpenAI chat messages, exports of ChatGPT, Claude, WhatsApp, mem0,
    Zep and Letta, and transcripts of Claude Code, Codex and Cursor; docs/importing.md describes each. Importing a file
    again stores nothing twice, so that is how to go on after an interruption. What cannot be stored goes to
    FILE.rejects.jsonl, with the reasons; the exit code is then 1.
    """
    if {rejects_path(file).resolve() for file in files} & {Path(file).resolve() for file in files}:
        raise click.UsageError("The rejects of a file would take the place of a file that is imported: rename it.")
    send = _pretend if dry_run else functools.partial(client.import_messages, replace=replace)
    rejected = 0
    for file in files:
        source = Source(file)
        found, items = _parsed(source, name, ImportDefaults(user, start, step, time_zone, Path(file).stem))
        with Rejects(rejects_path(file)) as rejects:
            upload = Upload(send, functools.partial(rejects.write, file))
            _run(upload, items, source)
        refused = rejects.path if rejects.path.exists() else None
        ignored = dict(upload.ignored)
        told = (upload.counts, dry_run, ignored, refused, upload.write_token, upload.rejection_groups)
        output.show(Summary(file, found.name, found.title, *told))
        rejected += upload.counts.rejected
    late = wait and not dry_run and not _caught_up(client, timeout)
    if late:
        output.notice("The indexes have not caught up yet; nomemory status shows how far they are.")
    if rejected or late:
        raise click.exceptions.Exit(1)


def _parsed(source: Source, name: str | None, given: ImportDefaults) -> tuple[Format, Iterator[ParseResult]]:
    items = read_records(source, name)
    if name is None:
        found, items = detect(items, given)
    else:
        found = load_format(name)(given)
    parsed = itertools.chain.from_iterable(
        [item] if isinstance(item, Rejected) else found.parse(item) for item in items
    )
    return found, map(FileOrder().in_order, parsed)


def _run(upload: Upload, items: Iterator[ParseResult], source: Source) -> None:
    """Send the messages of a file, and show how far it is."""
    label = "standard input" if source.name == STDIN else Path(source.name).name
    try:
        with progress(stderr_console(), label, "messages") as tell:
            for tally in upload.run(items):
                tell(tally.sent, source.consumed, len(source.content))
    except NoMemoryError:
        stopped = f"Stopped in {source.name} after {upload.counts.sent:,} messages."
        click.echo(f"{stopped} Run the import again to go on: nothing is stored twice.", err=True)
        raise


def _pretend(_: object) -> ingest_service_pb2.ImportMessagesResponse:
    return ingest_service_pb2.ImportMessagesResponse()


def _caught_up(client: Client, timeout: timedelta) -> bool:
    with indexing_progress(stderr_console()) as tell:
        return wait_until_indexed(client.status, timeout.total_seconds(), tell)
