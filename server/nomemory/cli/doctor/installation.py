"""Checks of the machine: SQLite, the data directory and its disk, the embedder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from nomemory.cli.output import Check
from nomemory.server.embedding.factory import (
    EMBEDDERS,
    local_embedder,
    models_directory,
)
from nomemory.server.embedding.local_model import local_is_available
from nomemory.server.embedding.onnx.model_cache import is_cached
from nomemory.server.faults import Fault
from nomemory.server.runtime.extension_point import ExtensionError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import CannotStartError, need_extra

_SQLITE: Final = (3, 37, 0)
_SPACE_FAIL: Final = 100 * 1024**2
_SPACE_WARN: Final = 1024**3
_LOCAL: Final = ("auto", "local")
_LET_IT_KEEP: Final = "Set NOMEMORY_EMBEDDING_MODEL_CACHE_DIR to a directory that can be written and has room for 31 MB."
_MESSAGE: Final = "I moved to the flat above the bakery in March, and the smell of bread wakes me before the alarm."
_MESSAGES: Final = 20
_EMBEDDERS: Final = "docs/embedders.md says what each embedder needs."


def check_sqlite() -> Check:
    """Check the version of the SQLite library that Python is linked to."""
    if sqlite3.sqlite_version_info < _SQLITE:
        advice = f"Use a Python that is built with SQLite {'.'.join(map(str, _SQLITE))} or newer."
        return Check("SQLite", "fail", sqlite3.sqlite_version, advice)
    return Check("SQLite", "ok", sqlite3.sqlite_version)


def check_storage(data: Path) -> Iterator[Check]:
    """Check the directory and its disk; where the server has not run yet, the directory it would be made in."""
    place = next(candidate for candidate in (data, *data.absolute().parents) if candidate.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        yield Check("Data directory", "fail", f"{data} is not writable", "Choose another one with --data.")
        return
    made = "" if place == data else " (will be made by the server)"
    yield Check("Data directory", "ok", f"{data}{made}")
    free = shutil.disk_usage(place).free
    finding = f"{free / 1024**3:,.1f} GB free"
    if free < _SPACE_FAIL:
        yield Check("Disk", "fail", finding, "Make room: a full disk refuses writes.")
    elif free < _SPACE_WARN:
        yield Check("Disk", "warn", finding, "Make room soon: a full disk refuses writes.")
    else:
        yield Check("Disk", "ok", finding)


def check_embedder(settings: Settings) -> Check:
    """Check the embedder that the settings choose. One on this machine has to embed a text; others may cost."""
    kind = settings.embedder.kind
    if kind == "none":
        return Check("Embedder", "warn", "none: no search by meaning", "Set NOMEMORY_EMBEDDER to local or openai.")
    try:
        if kind not in _LOCAL:
            if kind == "openai":
                need_extra("openai", ("openai",), "NOMEMORY_EMBEDDER=openai")
            else:
                EMBEDDERS.load(kind)
            return Check("Embedder", "skip", f"{kind}: not asked, because it may cost")
        told = asyncio.run(_local(settings))
    except (CannotStartError, Fault) as error:
        does_without = kind == "auto" and settings.embedder.model_dir is None and not local_is_available()
        return Check("Embedder", "warn" if does_without else "fail", str(error), _EMBEDDERS)
    except ExtensionError as error:
        return Check("Embedder", "fail", str(error), "Set NOMEMORY_EMBEDDER to another one.")
    models = models_directory(settings)
    if settings.embedder.model_dir is None and not is_cached(models):
        told += f"; converted again at each start, because it cannot be kept in {models}"
        return Check("Embedder", "warn", told, _LET_IT_KEEP)
    return Check("Embedder", "ok", told)


async def _local(settings: Settings) -> str:
    """Return which model it is, and how fast its processes are here."""
    embedder = local_embedder(settings)
    try:
        query_s = await _took(lambda: embedder.embed_query("When is the report on the tram due?"))
        texts_s = await _took(lambda: embedder.embed_documents([_MESSAGE] * _MESSAGES))
    finally:
        await embedder.close()
    return (
        f"local: {embedder.model} from {embedder.origin}, {embedder.dimension} dimensions, "
        f"{_MESSAGES / texts_s:.0f} texts a second, {1000 * query_s:.1f} ms for a query"
    )


async def _took(embed: Callable[[], Awaitable[object]]) -> float:
    """Return how long it takes, in seconds, when the model is loaded."""
    await embed()
    began = time.perf_counter()
    await embed()
    return time.perf_counter() - began
