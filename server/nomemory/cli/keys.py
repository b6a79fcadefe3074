"""`nomemory keys`: the API keys that a server takes; `nomemory cursor-key`: the key that seals its cursors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from nomemory.cli.console import stdout_console
from nomemory.cli.options import parse_duration
from nomemory.server.api.identity.api_keys import KeyFile, KeyRecord, new_key, read_keys, write_keys
from nomemory.server.api.identity.caller import Scope
from nomemory.server.api.identity.namespace import is_namespace
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.secure_files import file_lock
from nomemory.server.runtime.token_keys import KeyFileError, retire_key, rotate_key

_NAME: Final = re.compile(r"[\w.-]{1,64}")

_file_option = click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    envvar="NOMEMORY_API_KEYS",
    show_envvar=True,
    help="The file of keys, which the server reads as NOMEMORY_API_KEYS.",
)


@click.group("keys")
def keys() -> None:
    """Make, rotate and revoke the API keys that a server takes.

    The file holds a hash of each key, so a key is shown once and never again. A running server sees a change at the
    next call.
    """


@keys.command("create")
@click.option("--name", required=True, metavar="NAME", help="Whose key it is: what the server's log will say.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="What it allows; may be given several times.",
)
@click.option("--expires", type=parse_duration, metavar="SPAN", help="After how long it expires: 90d. Default: never.")
@click.option(
    "--namespace",
    metavar="NAME",
    help="Keep it to the users of this namespace: it names them without knowing of others. Default: all users.",
)
@_file_option
def create(*, name: str, scopes: Sequence[str], expires: timedelta | None, namespace: str | None, path: Path) -> None:
    """Make a key and print it, once."""
    if _NAME.fullmatch(name) is None:
        raise click.UsageError("A name has at most 64 letters, digits, dots, dashes and underscores.")
    if namespace is not None and not is_namespace(namespace):
        raise click.UsageError("A namespace has at most 64 letters (a to z), digits, dots, dashes and underscores.")
    now = datetime.now(UTC).replace(microsecond=0)
    key = new_key()
    record = KeyRecord(
        id=key.id,
        name=name,
        scopes=frozenset(Scope(scope) for scope in scopes),
        sha256=key.digest(),
        created=now,
        expires=None if expires is None else now + expires,
        namespace=namespace,
    )
    with _changed(path) as records:
        records.append(record)
    click.echo(key.text())
    click.echo("Keep it safe: it is not shown again.", err=True)


@keys.command("list")
@_file_option
def list_(*, path: Path) -> None:
    """Show whose keys there are and what they allow, not the keys themselves."""
    table = Table("id", "name", "scopes", "namespace", "created", "expires", box=None, pad_edge=False)
    now = datetime.now(UTC)
    for record in _readable(path):
        scopes = " ".join(sorted(record.scopes))
        created = f"{record.created:%Y-%m-%d}"
        table.add_row(record.id, record.name, scopes, record.namespace or "", created, _expiry(record, now))
    stdout_console().print(table)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@_file_option
def revoke(*, key_id: str, path: Path) -> None:
    """Take a key out of the file: no further call is accepted with it."""
    with _changed(path) as records:
        found = _found(records, key_id)
        records.remove(found)
    click.echo(f"Revoked {key_id} ({found.name}).", err=True)


@keys.command("rotate")
@click.argument("key_id", metavar="ID")
@click.option(
    "--overlap",
    type=parse_duration,
    metavar="SPAN",
    default="24h",
    show_default=True,
    help="How long the old key stays good.",
)
@_file_option
def rotate(*, key_id: str, overlap: timedelta, path: Path) -> None:
    """Make a key in the place of another one, for the same name, scopes and namespace, and print it, once.

    Both are good until the overlap is over. The new one lasts as long as the old one was made for.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    key = new_key()
    with _changed(path) as records:
        old = _found(records, key_id)
        if old.is_expired(now):
            raise click.ClickException("this key has expired; nomemory keys create makes another one.")
        lasts = None if old.expires is None else now + (old.expires - old.created)
        ends = now + overlap if old.expires is None else min(old.expires, now + overlap)
        records[records.index(old)] = old.model_copy(update={"expires": ends})
        fresh = {"id": key.id, "sha256": key.digest(), "created": now, "expires": lasts}
        records.append(old.model_copy(update=fresh))
    click.echo(key.text())
    click.echo(f"Keep it safe: it is not shown again. The old one is good until {ends:%Y-%m-%d %H:%M} UTC.", err=True)


def _readable(path: Path) -> list[KeyRecord]:
    """Read the keys, in the order in which they were made; none where there is no file.

    Raises:
        click.ClickException: the file is no file of keys.
    """
    try:
        return list(read_keys(path).keys)
    except ValueError as error:
        raise click.ClickException(f"{path} {error}.") from None


@contextmanager
def _changed(path: Path) -> Iterator[list[KeyRecord]]:
    """Return the keys to change; they are written when the context is left without an error.

    Raises:
        click.ClickException: the file is no file of keys.
    """
    with file_lock(path):
        records = _readable(path)
        yield records
        write_keys(path, KeyFile(keys=tuple(records)))


def _found(records: Sequence[KeyRecord], key_id: str) -> KeyRecord:
    found = next((record for record in records if record.id == key_id), None)
    if found is None:
        raise click.ClickException("there is no key with this id; nomemory keys list shows the ids.")
    return found


def _expiry(record: KeyRecord, now: datetime) -> str:
    if record.expires is None:
        return "never"
    return f"{record.expires:%Y-%m-%d %H:%M}" + (" (expired)" if record.is_expired(now) else "")


@click.command("cursor-key")
@click.argument("action", type=click.Choice(["rotate", "retire"]))
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    envvar="NOMEMORY_DATA",
    show_envvar=True,
    help="Directory of the server's data.",
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="NOMEMORY_KEY_FILE",
    show_envvar=True,
    help="File of the key, if it is not in that directory.",
)
def cursor_key(*, action: str, data: Path, key_file: Path | None) -> None:
    """Rotate the key that seals cursors and write tokens.

    First `rotate`: it makes a new key, which seals from now on, and what the old one sealed stays good. When nobody
    needs cursors and write tokens from before any more, `retire`: it takes the old key out, and what that sealed is
    refused. A running server sees a change at the next call.
    """
    key = DataDirectory(data, key_file).key
    try:
        if action == "rotate":
            rotate_key(key)
            click.echo("There is a new key. Take the old one out with: nomemory cursor-key retire", err=True)
        else:
            retire_key(key)
            click.echo("The old key is no longer accepted.", err=True)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
