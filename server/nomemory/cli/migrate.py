"""`nomemory migrate`."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import click

from nomemory.cli import figures
from nomemory.cli.configuration import configured
from nomemory.cli.printable import one_line
from nomemory.cli.terminal import stderr_console
from nomemory.importing.progress import moving

if TYPE_CHECKING:
    from nomemory.server.maintenance.migration import Outcome
    from nomemory.server.maintenance.sameness import Sameness
    from nomemory.server.settings import Settings

_SCHEMES: Final = ("postgresql://", "postgres://")
_NO_DRIVER: Final = "The driver of PostgreSQL is not installed: pip install 'nomemory[postgres]'."
_ONE_OF_EACH: Final = """\
One of --from and --to is a data directory, and the other the URL of a PostgreSQL database. For the latter \
NOMEMORY_LOG will do."""
_ID_TOO_LONG: Final = "an id is too long for PostgreSQL: three of them have to fit into 2,700 bytes"
_TOO_LONG: Final = "54000"
_DAMAGED_MAX: Final = 20


class _Ends(NamedTuple):
    directory: Path
    url: str
    to_database: bool

    @property
    def source(self) -> str:
        return str(self.directory) if self.to_database else shown(self.url)

    @property
    def target(self) -> str:
        return shown(self.url) if self.to_database else str(self.directory)


@click.command("migrate")
@click.option("--from", "source", metavar="PLACE", help="What has the message log. Default: NOMEMORY_LOG.")
@click.option("--to", "target", metavar="PLACE", help="What is to have it. Default: NOMEMORY_LOG.")
@click.option("--switch", is_flag=True, help="Hand the log over: the server at the old place must not be running.")
def migrate(*, source: str | None, target: str | None, switch: bool) -> None:
    """Move the message log from a data directory to PostgreSQL, or back.

    One of --from and --to is a data directory, the other postgresql://…. PGPASSWORD, or the URL in NOMEMORY_LOG, keeps
    a password out of the list of processes.

    Without --switch the log is copied while its server goes on. What was copied is not copied again, so that is how to
    go on after an interruption, and how to catch up. No server starts on the copy.

    With --switch nobody may write any more: the rest is copied, both are compared, and the copy becomes the log. The
    old place stays as it is, and no server starts on it. The log keeps its sequences and ids, so that with the same
    server.key cursors and write tokens stay good, and nothing is embedded again.
    """
    settings = configured()
    ends = _ends(source, target, settings)
    with _told():
        outcome = asyncio.run(_move(settings, ends, switches=switch))
    _summarise(ends, outcome)
    if not outcome.is_sound:
        raise click.exceptions.Exit(1)


def shown(url: str) -> str:
    """Return where a URL leads, without what is secret in it."""
    parts = urlsplit(url)
    if "@" in url and "@" not in parts.netloc:
        return "the database"  # no URL: what looks like a host may be a piece of a password
    schema = parse_qs(parts.query).get("search_path", [])
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}{''.join(f' ({name})' for name in schema)}"


def _ends(source: str | None, target: str | None, settings: Settings) -> _Ends:
    log = settings.server.log.get_secret_value() if settings.server.log else None
    given, other = source or log, target or log
    if not given or not other or _is_url(given) == _is_url(other):
        raise click.UsageError(_ONE_OF_EACH)
    return _Ends(Path(given), other, True) if _is_url(other) else _Ends(Path(other), given, False)  # noqa: FBT003


def _is_url(text: str) -> bool:
    return text.startswith(_SCHEMES)


async def _move(settings: Settings, ends: _Ends, *, switches: bool) -> Outcome:
    from nomemory.server.data_directory import DataDirectory  # noqa: PLC0415 - loads the engines
    from nomemory.server.log.postgres_connections import LONG_S, Database  # noqa: PLC0415 - its driver is an extra
    from nomemory.server.maintenance.moving import move_to_database, move_to_file  # noqa: PLC0415

    directory = DataDirectory(ends.directory)
    database = Database(
        ends.url, connect_timeout_s=settings.postgres.connect_timeout_s, statement_timeout_s=LONG_S, pool_max=1
    )
    with moving(stderr_console()) as tell:
        if ends.to_database:
            return await move_to_database(directory, database, switches=switches, tell=tell)
        return await move_to_file(database, directory, switches=switches, tell=tell)


@contextmanager
def _told() -> Iterator[None]:
    """Turn whatever stands in the way into a sentence.

    Raises:
        click.ClickException: something does.
    """
    try:
        from nomemory.server.data_directory import DataDirectoryBusyError as Busy  # noqa: PLC0415
        from nomemory.server.data_directory import DataDirectoryUnusableError as Unusable  # noqa: PLC0415
        from nomemory.server.log.postgres_connections import ERRORS  # noqa: PLC0415
        from nomemory.server.log.protocol import LogUnusableError, LogVersionError  # noqa: PLC0415
        from nomemory.server.maintenance.migration import MigrationError  # noqa: PLC0415
    except ImportError:
        raise click.ClickException(_NO_DRIVER) from None
    try:
        yield
    except Busy as error:
        raise click.ClickException(f"{error}. Stop it, and run this again") from None
    except (MigrationError, Unusable, LogUnusableError, LogVersionError) as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"the message log's file cannot be used: {error}") from None
    except ERRORS as error:
        if isinstance(error, OSError) and error.filename:
            raise  # it names the file
        raise click.ClickException(_of_database(error)) from None


def _of_database(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    if state == _TOO_LONG:
        return _ID_TOO_LONG
    cause = f"{type(error).__name__} ({state})" if state else str(error) or type(error).__name__
    return f"the database cannot be used: {cause}. What was copied stays; run this again to go on"


def _summarise(ends: _Ends, outcome: Outcome) -> None:
    copied = f"{figures.counted(outcome.copied, 'message')} copied to {ends.target}"
    gone = f", {outcome.gone:,} that went meanwhile deleted there" if outcome.gone else ""
    click.echo(f"{copied}{gone}. It has everything up to change {outcome.position.sequence:,}.")
    for damaged in outcome.damaged[:_DAMAGED_MAX]:
        user, message = one_line(damaged.user_id), one_line(damaged.message_id)
        click.echo(f"Damaged: message {message} of user {user}, change {damaged.sequence:,}", err=True)
    if outcome.damaged:
        _tell_damage(ends, outcome)
    elif outcome.sameness is None:
        behind = f" The log is {outcome.behind:,} changes further by now." if outcome.behind else ""
        click.echo(f"The log is still in {ends.source}.{behind} To hand it over, stop its server and add --switch.")
    else:
        _tell_comparison(ends, outcome.sameness)


def _tell_damage(ends: _Ends, outcome: Outcome) -> None:
    more = len(outcome.damaged) - _DAMAGED_MAX
    if more > 0:
        click.echo(f"and {more:,} more", err=True)
    advice = (
        f"delete them with `nomemory doctor --data {ends.directory} --delete-damaged`, or restore a backup"
        if ends.to_database
        else "delete them with `nomemory delete`, or restore the database"
    )
    click.echo(
        f"{figures.counted(len(outcome.damaged), 'message')} of {ends.source} cannot be copied, because the checksum"
        f" does not hold: {advice}. Then run this again. The log stays where it is.",
        err=True,
    )


def _tell_comparison(ends: _Ends, same: Sameness) -> None:
    for difference in same.differences:
        click.echo(f"Differs: {one_line(difference)}", err=True)
    if same.differences:
        click.echo("The copy is not what the log is, and the log stays where it is. Run this again.", err=True)
        return
    totals = same.totals
    click.echo(
        f"Verified: {totals.messages:,} messages with their checksums, {totals.vectors:,} vectors that they brought,"
        f" {totals.entries:,} entries of metadata, {totals.requests:,} requests, {totals.removals:,} removals;"
        f" the count and the latest change of each of {totals.users:,} users;"
        f" {same.read:,} messages of {same.sampled:,} users, read from both, byte for byte."
    )
    if ends.to_database:
        click.echo(
            f"Start the server with NOMEMORY_LOG and the same data directory. {ends.directory / 'log.db'} keeps what it"
            " has: delete it when you no longer need it."
        )
    else:
        click.echo(
            f"Start the server on {ends.directory}, without NOMEMORY_LOG. The database keeps what it has: drop its"
            " tables when you no longer need them."
        )
