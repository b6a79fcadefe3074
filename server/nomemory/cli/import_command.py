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
from nomemory.cli.console import create_stderr_console
from nomemory.cli.options import TIME_FORMATS, output_option, parse_duration, parse_time
from nomemory.cli.output import Output
from nomemory.cli.terminal import pluralize
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.importing.file_order import FileOrder
from nomemory.importing.files import STDIN, ImportFile
from nomemory.importing.formats import FORMATS, detect_format, load_format, read_records
from nomemory.importing.progress import show_indexing_progress, show_progress
from nomemory.importing.record import ImportDefaults, ImportFormat, ParseResult, RejectedRecord
from nomemory.importing.rejects import RejectsFile, build_rejects_path
from nomemory.importing.sample import get_sample_path
from nomemory.importing.upload import ImportSummary, MessageUploader, wait_until_indexed
from nomemory.server.runtime.extension_point import ExtensionError
from nomemory.v1 import ingest_service_pb2


def parse_format(name: str) -> str:
    """Check that a format exists.

    Raises:
        click.BadParameter: no format has this name.
    """
    try:
        load_format(name)
    except ExtensionError as error:
        raise click.BadParameter(f"{error}.") from None
    return name


def parse_time_zone(text: str) -> tzinfo:
    """Parse an IANA time zone name, such as `Asia/Shanghai`.

    Raises:
        click.BadParameter: no time zone has this name.
    """
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        raise click.BadParameter(f"{text!r} is not a time zone: use an IANA name, such as Europe/Berlin.") from None


@click.command("import")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--sample", is_flag=True, help="Import the sample: a year of chat of the users `lin`, `sam` and `mei`.")
@click.option("--user", default="", metavar="USER", help="User id for all messages; overrides user ids in the files.")
@click.option(
    "--format",
    "name",
    type=parse_format,
    metavar="NAME",
    help=f"File format: {', '.join(FORMATS)}. Default: detected for each file.",
)
@click.option(
    "--start", type=parse_time, metavar="TIME", help=f"Time of the first message without a time: {TIME_FORMATS}."
)
@click.option(
    "--step",
    type=parse_duration,
    metavar="SPAN",
    default="1s",
    show_default=True,
    help="Interval between messages without a time.",
)
@click.option(
    "--time-zone",
    type=parse_time_zone,
    metavar="NAME",
    help="Time zone of timestamps without a UTC offset, such as Asia/Shanghai.",
)
@click.option("--replace", is_flag=True, help="Replace stored messages that have the same id.")
@click.option("--dry-run", is_flag=True, help="Read and validate the files without storing anything.")
@click.option("--wait", is_flag=True, help="Wait until all messages are indexed.")
@click.option(
    "--timeout",
    type=parse_duration,
    metavar="SPAN",
    default="10m",
    show_default=True,
    help="Maximum time to wait with --wait.",
)
@client_option
@output_option
def import_messages(  # noqa: PLR0913 - a parameter for each option
    *,
    files: Sequence[str],
    sample: bool,
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
    """Import messages from files, or from standard input with `-`.

    Supported formats: JSON Lines with the field names of the API, OpenAI chat messages, exports of ChatGPT, Claude,
    WhatsApp, mem0, Zep and Letta, and transcripts of Claude Code, Codex and Cursor (docs/importing.md). Imports are
    idempotent: to resume after an interruption, run the command again. Rejected messages are written to
    FILE.rejects.jsonl with the reasons, and the exit status is 1. If the directory of FILE is not writable, the
    file is written to the temporary directory of the system.
    """
    if sample:
        files = [*files, str(get_sample_path())]
    if not files:
        raise click.UsageError("Specify a file to import, or import the sample with --sample.")
    if {build_rejects_path(file).resolve() for file in files} & {Path(file).resolve() for file in files}:
        raise click.UsageError("The rejects file of one input would overwrite another input; rename that input.")
    send = _discard_batch if dry_run else functools.partial(client.import_messages, replace=replace)
    rejected = 0
    for file in files:
        source = ImportFile(file)
        file_format, items = _parse_source(source, name, ImportDefaults(user, start, step, time_zone, Path(file).stem))
        with RejectsFile(build_rejects_path(file)) as rejects:
            upload = MessageUploader(send, functools.partial(rejects.write_rejection, file))
            _run_import(upload, items, source, rejects)
        output.show(
            ImportSummary(
                source=file,
                format=file_format.name,
                title=file_format.title,
                counts=upload.counts,
                dry_run=dry_run,
                ignored=dict(upload.ignored),
                rejects=rejects.written,
                write_token=upload.write_token,
                rejection_groups=upload.rejection_groups,
            )
        )
        rejected += upload.counts.rejected
    is_behind = wait and not dry_run and not _wait_for_indexes(client, timeout)
    if is_behind:
        output.show_notice("Indexing did not finish before the timeout. See `nomemory status`.")
    if rejected or is_behind:
        raise click.exceptions.Exit(1)


def _parse_source(
    source: ImportFile, name: str | None, defaults: ImportDefaults
) -> tuple[ImportFormat, Iterator[ParseResult]]:
    items = read_records(source, name)
    if name is None:
        file_format, items = detect_format(items, defaults)
    else:
        file_format = load_format(name)(defaults)
    results = itertools.chain.from_iterable(
        [item] if isinstance(item, RejectedRecord) else file_format.parse(item) for item in items
    )
    return file_format, map(FileOrder().assign_ordered_id, results)


def _run_import(
    upload: MessageUploader, items: Iterator[ParseResult], source: ImportFile, rejects: RejectsFile
) -> None:
    """Upload the messages of a file, and show the progress."""
    label = "standard input" if source.name == STDIN else Path(source.name).name
    try:
        with show_progress(create_stderr_console(), label, "messages") as update:
            for counts in upload.send_messages(items):
                update(counts.sent, source.consumed, len(source.content))
    except NoMemoryError:
        stopped = f"Stopped in {source.name} after {upload.counts.sent:,} messages."
        click.echo(f"{stopped} Run the import again to resume; no message is stored twice.", err=True)
        if rejects.written:
            click.echo(f"{pluralize(upload.counts.rejected, 'message')} rejected so far: {rejects.written}", err=True)
        raise


def _discard_batch(_: object) -> ingest_service_pb2.ImportMessagesResponse:
    return ingest_service_pb2.ImportMessagesResponse()


def _wait_for_indexes(client: Client, timeout: timedelta) -> bool:
    with show_indexing_progress(create_stderr_console()) as update:
        return wait_until_indexed(client.status, timeout.total_seconds(), update)
