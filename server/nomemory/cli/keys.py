"""`nomemory keys` and `nomemory cursor-key`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from nomemory.cli.console import create_stdout_console
from nomemory.cli.options import parse_duration
from nomemory.server.api.identity.api_keys import KeyFile, KeyRecord, generate_key, read_keys, write_keys
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
    help="Path of the server's API key file, as in its setting NOMEMORY_API_KEYS.",
)


@click.group("keys")
def keys() -> None:
    """Create, rotate and revoke API keys.

    The file contains only hashes, so a key is shown once. A running server applies changes with the next call.
    """


@keys.command("create")
@click.option("--name", required=True, metavar="NAME", help="Name of the key in the server's logs.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="Granted scope; may be repeated.",
)
@click.option("--expires", type=parse_duration, metavar="SPAN", help="Lifetime, such as 90d. Default: unlimited.")
@click.option(
    "--namespace",
    metavar="NAME",
    help="Restrict the key to the users of this namespace. Default: all users.",
)
@_file_option
def create_key(
    *, name: str, scopes: Sequence[str], expires: timedelta | None, namespace: str | None, path: Path
) -> None:
    """Create a key and print it."""
    if _NAME.fullmatch(name) is None:
        raise click.UsageError("--name: use 1 to 64 letters, digits, dots, dashes and underscores.")
    if namespace is not None and not is_namespace(namespace):
        raise click.UsageError("--namespace: use 1 to 64 letters (a to z), digits, dots, dashes and underscores.")
    now = datetime.now(UTC).replace(microsecond=0)
    key = generate_key()
    record = KeyRecord(
        id=key.id,
        name=name,
        scopes=frozenset(Scope(scope) for scope in scopes),
        sha256=key.digest(),
        created=now,
        expires=None if expires is None else now + expires,
        namespace=namespace,
    )
    with _edit_keys(path) as records:
        records.append(record)
    click.echo(key.text())
    click.echo("Store the key safely; it is not shown again.", err=True)


@keys.command("list")
@_file_option
def list_keys(*, path: Path) -> None:
    """List the keys with their names and scopes."""
    table = Table("id", "name", "scopes", "namespace", "created", "expires", box=None, pad_edge=False)
    now = datetime.now(UTC)
    for record in _load_keys(path):
        scopes = " ".join(sorted(record.scopes))
        created = f"{record.created:%Y-%m-%d}"
        table.add_row(record.id, record.name, scopes, record.namespace or "", created, _describe_expiry(record, now))
    create_stdout_console().print(table)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@_file_option
def revoke_key(*, key_id: str, path: Path) -> None:
    """Revoke a key."""
    with _edit_keys(path) as records:
        record = _find_key(records, key_id)
        records.remove(record)
    click.echo(f"Revoked {key_id} ({record.name}).", err=True)


@keys.command("rotate")
@click.argument("key_id", metavar="ID")
@click.option(
    "--overlap",
    type=parse_duration,
    metavar="SPAN",
    default="24h",
    show_default=True,
    help="How long the old key remains valid.",
)
@_file_option
def rotate_api_key(*, key_id: str, overlap: timedelta, path: Path) -> None:
    """Replace a key with a new one, and print it.

    The new key has the same name, scopes, namespace and lifetime. Both keys are valid during the overlap.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    key = generate_key()
    with _edit_keys(path) as records:
        old = _find_key(records, key_id)
        if old.is_expired(now):
            raise click.ClickException("This key has expired. Create a new one with `nomemory keys create`.")
        new_expiry = None if old.expires is None else now + (old.expires - old.created)
        valid_until = now + overlap if old.expires is None else min(old.expires, now + overlap)
        records[records.index(old)] = old.model_copy(update={"expires": valid_until})
        new_fields = {"id": key.id, "sha256": key.digest(), "created": now, "expires": new_expiry}
        records.append(old.model_copy(update=new_fields))
    click.echo(key.text())
    click.echo(
        f"Store the key safely; it is not shown again. The old key is valid until {valid_until:%Y-%m-%d %H:%M} UTC.",
        err=True,
    )


def _load_keys(path: Path) -> list[KeyRecord]:
    """Return the keys in creation order; an empty list if the file does not exist.

    Raises:
        click.ClickException: the file is not a valid key file.
    """
    try:
        return list(read_keys(path).keys)
    except ValueError as error:
        raise click.ClickException(f"{path}: {error}.") from None


@contextmanager
def _edit_keys(path: Path) -> Iterator[list[KeyRecord]]:
    """Yield the keys for modification, and write them when the block ends without an error.

    Raises:
        click.ClickException: the file is not a valid key file.
    """
    with file_lock(path):
        records = _load_keys(path)
        yield records
        write_keys(path, KeyFile(keys=tuple(records)))


def _find_key(records: Sequence[KeyRecord], key_id: str) -> KeyRecord:
    record = next((candidate for candidate in records if candidate.id == key_id), None)
    if record is None:
        raise click.ClickException("No key has this id. List the ids with `nomemory keys list`.")
    return record


def _describe_expiry(record: KeyRecord, now: datetime) -> str:
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
    help="The server's data directory.",
)
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="NOMEMORY_KEY_FILE",
    show_envvar=True,
    help="Key file. Default: `server.key` in the data directory.",
)
def change_cursor_key(*, action: str, data: Path, key_file: Path | None) -> None:
    """Rotate the key that encrypts cursors and write tokens.

    `rotate` creates a new key; cursors and write tokens issued with the old key remain valid. `retire` removes the old
    key and invalidates its cursors and write tokens. A running server applies changes with the next call.
    """
    key = DataDirectory(data, key_file).token_key
    try:
        if action == "rotate":
            rotate_key(key)
            click.echo("Created a new key. Remove the old one with: nomemory cursor-key retire", err=True)
        else:
            retire_key(key)
            click.echo("Removed the old key.", err=True)
    except KeyFileError as error:
        raise click.ClickException(str(error)) from None
