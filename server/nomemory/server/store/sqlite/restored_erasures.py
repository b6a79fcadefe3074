"""Apply the register of the replaced message log and a register file to a restored log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nomemory.server.store.erasure_register import AppliedErasures, ErasureEntry, RegisterError, RegisterKey
from nomemory.server.store.errors import LogUnusableError, LogVersionError
from nomemory.server.store.protocol import LogMigratedError
from nomemory.server.store.register_file import read_register
from nomemory.server.store.sqlite.erasure_register import read_epochs, read_erasures
from nomemory.server.store.sqlite.register_application import apply_erasures, open_register
from nomemory.server.store.sqlite.schema import begin_epoch, read_identity

_UNREADABLE: Final = """\
the register of erasures in the existing log {log} cannot be read: {cause}. Use --erasures FILE to apply an exported \
register instead, or --ignore-existing-erasures to restore without the erasures of this log"""


@dataclass(frozen=True, slots=True)
class RegisterSource:
    """A register of erasures to apply: a register file, or the register of the message log that is replaced.

    Attributes:
        file: the register file; None for the message log that is replaced.
        since_us: Unix time in microseconds at which the register was created; the register contains no earlier erasure.
        exported_us: Unix time of the export in microseconds; None for a message log.
    """

    file: Path | None
    since_us: int
    exported_us: int | None
    erasures: Callable[[], Iterator[ErasureEntry]]


@dataclass(frozen=True, slots=True)
class AppliedRegister:
    """A register that was applied to a message log, and the number of removed users and messages."""

    source: RegisterSource
    applied: AppliedErasures


def apply_registers(connection: sqlite3.Connection, sources: Iterable[RegisterSource]) -> list[AppliedRegister]:
    """Start a new epoch of a restored message log, later than all registered erasures, and apply the registers.

    Raises:
        RegisterError: a register of erasures cannot be read.
    """
    sources = list(sources)
    latest_us = max((erasure.erased_us for source in sources for erasure in source.erasures()), default=0)
    begin_epoch(connection, latest_us + 1)
    return [AppliedRegister(source, apply_erasures(connection, source.erasures())) for source in sources]


def load_registers(
    connection: sqlite3.Connection, existing: Path, file: Path | None, *, ignores_existing: bool
) -> Iterator[RegisterSource]:
    """Yield the registers that belong to the restored message log of `connection`.

    Args:
        connection: a connection to the restored message log.
        existing: path of the message log that is replaced; the file may be missing.
        file: a register file; None if there is none.
        ignores_existing: whether to continue if the register of the existing message log cannot be read.

    Raises:
        RegisterError: the file is damaged or belongs to another message log, or the register of the existing log cannot
            be read.
        OSError: the file cannot be read.
    """
    log_id = read_identity(connection).log_id
    if not ignores_existing:
        yield from _load_existing_register(existing, log_id, is_required=file is None)
    if file is not None:
        register = read_register(file, RegisterKey.from_log_id(log_id))
        yield RegisterSource(file, register.since_us, register.exported_us, register.read_erasures)


def _load_existing_register(log: Path, log_id: str, *, is_required: bool) -> Iterator[RegisterSource]:
    try:
        with closing(open_register(log)) as connection:
            belongs, since_us = read_identity(connection).log_id == log_id, read_epochs(connection)[0].began_us
            for _ in read_erasures(connection):  # detects damage
                pass
    except (RegisterError, LogMigratedError):  # no message log, no register, or a migrated message log
        return
    except (sqlite3.Error, LogUnusableError, LogVersionError) as error:
        if is_required:
            raise RegisterError(_UNREADABLE.format(log=log, cause=error)) from None
        return
    if belongs:
        yield RegisterSource(None, since_us, None, lambda: _read_existing_erasures(log))


def _read_existing_erasures(log: Path) -> Iterator[ErasureEntry]:
    with closing(open_register(log)) as connection:
        yield from read_erasures(connection)
