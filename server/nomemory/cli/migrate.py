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

from nomemory.cli.configuration import configured
from nomemory.cli.console import stderr_console
from nomemory.cli.terminal import counted, one_line
from nomemory.importing.progress import progress
from nomemory.server.cannot_start import CannotStartError, need_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nomemory.server.log.feed import Touched
    from nomemory.server.maintenance.move import Outcome
    from nomemory.server.settings import Settings

_SCHEMES: Final = ("postgresql://", "postgres://")
_ONE_OF_EACH: Final = """\
One of --from and --to is a data directory, and the other the URL of a PostgreSQL database. For the latter \
NOMEMORY_LOG will do."""
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
def migrate(*, source: str | None, target: str | None) -> None:
    """Move the message log from a data directory to PostgreSQL, or back, while its servers are stopped.

    One of --from and --to is a data directory, the other postgresql://…. PGPASSWORD, or the URL in NOMEMORY_LOG, keeps
    a password out of the list of processes.

    All rows are copied and compared, and only then the copy becomes the log. After an interruption run it again: what
    was copied is not copied again. Until the end the log is where it was. Then the old place stays as it is, and no
    server starts on it. To go back, move the log back.

    The log keeps its sequences and ids, so that with the same server.key cursors and write tokens stay good, and
    nothing is embedded again.
    """
    settings = configured()
    ends = _ends(source, target, settings)
    with _explained():
        outcome = asyncio.run(_move(settings, ends))
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


async def _move(settings: Settings, ends: _Ends) -> Outcome:
    from nomemory.server.data_directory import DataDirectory  # noqa: PLC0415 - loads the engines
    from nomemory.server.log.postgres.connections import LONG_S, Database  # noqa: PLC0415 - its driver is an extra
    from nomemory.server.maintenance.move_database import move_to_database, move_to_file  # noqa: PLC0415

    directory = DataDirectory(ends.directory)
    database = Database(
        ends.url, connect_timeout_s=settings.postgres.connect_timeout_s, statement_timeout_s=LONG_S, pool_max=1
    )
    with progress(stderr_console(), "Copying", "messages") as tell:

        def copied(messages: int, all_of_them: int) -> None:
            tell(messages, messages, all_of_them)

        if ends.to_database:
            return await move_to_database(directory, database, copied)
        return await move_to_file(database, directory, copied)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn whatever stands in the way into a sentence.

    Raises:
        click.ClickException: something does.
    """
    try:
        need_extra("postgres", ("asyncpg",), "nomemory migrate")
    except CannotStartError as error:
        raise click.ClickException(str(error)) from None
    from nomemory.server.data_directory import DataDirectoryBusyError  # noqa: PLC0415 - loads the engines
    from nomemory.server.log.postgres.connections import ERRORS  # noqa: PLC0415 - its driver is an extra
    from nomemory.server.maintenance.move import MigrationError  # noqa: PLC0415

    try:
        yield
    except DataDirectoryBusyError as error:
        raise click.ClickException(f"{error}. Stop it, and run this again") from None
    except (MigrationError, CannotStartError) as error:
        raise click.ClickException(str(error)) from None
    except sqlite3.Error as error:
        raise click.ClickException(f"the message log's file cannot be used: {error}") from None
    except ERRORS as error:
        if isinstance(error, OSError) and error.filename:
            raise  # it names the file
        raise click.ClickException(_of_database(error)) from None


def _of_database(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None)
    cause = f"{type(error).__name__} ({state})" if state else str(error) or type(error).__name__
    return f"the database cannot be used: {cause}. What was copied stays; run this again to go on"


def _summarise(ends: _Ends, outcome: Outcome) -> None:
    if outcome.damaged:
        _tell_damage(ends, outcome.damaged)
    elif outcome.differences:
        for difference in outcome.differences:
            click.echo(f"Differs: {difference}", err=True)
        click.echo(
            f"The copy is not what the log is, and is given up. The log stays in {ends.source}. Run this again.",
            err=True,
        )
    else:
        _tell_comparison(ends, outcome)


def _tell_damage(ends: _Ends, found: Sequence[Touched]) -> None:
    for damaged in found[:_DAMAGED_MAX]:
        user, message = one_line(damaged.user_id), one_line(damaged.message_id)
        click.echo(f"Damaged: message {message} of user {user}, change {damaged.sequence:,}", err=True)
    advice = (
        f"delete them with `nomemory doctor --data {ends.directory} --delete-damaged`, or restore a backup"
        if ends.to_database
        else "delete them with `nomemory delete`, or restore the database"
    )
    click.echo(
        f"{counted(len(found), 'message')} of {ends.source} cannot be copied, because the checksum does not hold:"
        f" {advice}. Then run this again. The log stays where it is.",
        err=True,
    )


def _tell_comparison(ends: _Ends, outcome: Outcome) -> None:
    moved = counted(outcome.sums["messages"].rows, "message")
    position = f"up to change {outcome.position.sequence:,}"
    verified = "Verified, every row: of messages, vectors, metadata, users, requests and removals."
    click.echo(f"{moved} moved to {ends.target}, {position}. {verified}")
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
