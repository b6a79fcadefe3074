"""Checks of the installation: SQLite, the data directory and its disk, the embedder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

from nomemory.cli.output import CheckResult
from nomemory.server.embedding.factory import (
    EMBEDDERS,
    create_local_embedder,
    get_models_directory,
)
from nomemory.server.embedding.local_model import is_local_model_available
from nomemory.server.embedding.onnx.model_cache import is_cached
from nomemory.server.faults import Fault
from nomemory.server.runtime.extension_point import ExtensionError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError, require_extra

_SQLITE: Final = (3, 37, 0)
_FAIL_BELOW_BYTES: Final = 100 * 1024**2
_WARN_BELOW_BYTES: Final = 1024**3
_LOCAL: Final = ("auto", "local")
_SET_CACHE_DIR: Final = "Set NOMEMORY_EMBEDDING_MODEL_CACHE_DIR to a writable directory with 55 MB of free space."
_MESSAGE: Final = "I moved to the flat above the bakery in March, and the smell of bread wakes me before the alarm."
_MESSAGES: Final = 20
_EMBEDDERS: Final = "See docs/embedders.md for the requirements of each embedder."


def check_sqlite() -> CheckResult:
    """Check the version of the SQLite library of this Python."""
    if sqlite3.sqlite_version_info < _SQLITE:
        advice = f"Use a Python with SQLite {'.'.join(map(str, _SQLITE))} or newer."
        return CheckResult("SQLite", "fail", sqlite3.sqlite_version, advice)
    return CheckResult("SQLite", "ok", sqlite3.sqlite_version)


def check_storage(data: Path) -> Iterator[CheckResult]:
    """Check the data directory and its disk. If the directory does not exist, check its closest existing parent."""
    existing = next(candidate for candidate in (data, *data.absolute().parents) if candidate.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield CheckResult(
            "Data directory",
            "fail",
            f"{data} is not writable",
            "Make it writable, or pass another directory with --data.",
        )
        return
    suffix = "" if existing == data else " (the server will create it)"
    yield CheckResult("Data directory", "ok", f"{data}{suffix}")
    free = shutil.disk_usage(existing).free
    finding = f"{free / 1024**3:,.1f} GB free"
    if free < _FAIL_BELOW_BYTES:
        yield CheckResult("Disk", "fail", finding, "Free disk space: the server rejects writes when the disk is full.")
    elif free < _WARN_BELOW_BYTES:
        yield CheckResult(
            "Disk", "warn", finding, "Free disk space soon: the server rejects writes when the disk is full."
        )
    else:
        yield CheckResult("Disk", "ok", finding)


def check_embedder(settings: Settings) -> CheckResult:
    """Check the configured embedder. Only a local embedder is called, because other providers may bill calls."""
    kind = settings.embedder.kind
    if kind == "none":
        return CheckResult(
            "Embedder", "warn", "none: semantic search is disabled", "Set NOMEMORY_EMBEDDER to local or openai."
        )
    try:
        if kind not in _LOCAL:
            if kind == "openai":
                require_extra("openai", ("openai",), "NOMEMORY_EMBEDDER=openai")
            else:
                EMBEDDERS.load(kind)
            return CheckResult("Embedder", "skip", f"{kind}: not called, because calls may be billed")
        finding = asyncio.run(_describe_local_model(settings))
    except (StartupError, Fault) as error:
        is_optional = kind == "auto" and settings.embedder.model_dir is None and not is_local_model_available()
        return CheckResult("Embedder", "warn" if is_optional else "fail", str(error), _EMBEDDERS)
    except ExtensionError as error:
        return CheckResult(
            "Embedder",
            "fail",
            str(error),
            "Install the package of this embedder, or set NOMEMORY_EMBEDDER to another one.",
        )
    models = get_models_directory(settings)
    if settings.embedder.model_dir is None and not is_cached(models):
        finding += f"; converted at every start, because the cache directory {models} is not writable"
        return CheckResult("Embedder", "warn", finding, _SET_CACHE_DIR)
    return CheckResult("Embedder", "ok", finding)


async def _describe_local_model(settings: Settings) -> str:
    """Return a description of the local model with its measured speed."""
    embedder = create_local_embedder(settings)
    try:
        query_s = await _measure_call(lambda: embedder.embed_query("When is the report on the tram due?"))
        texts_s = await _measure_call(lambda: embedder.embed_documents([_MESSAGE] * _MESSAGES))
    finally:
        await embedder.close()
    return (
        f"local: {embedder.model} from {embedder.origin}, {embedder.dimension} dimensions, "
        f"{_MESSAGES / texts_s:.0f} texts per second, {1000 * query_s:.1f} ms per query"
    )


async def _measure_call(embed: Callable[[], Awaitable[object]]) -> float:
    """Return the duration of a call in seconds, after a first call that loads the model."""
    await embed()
    started = time.perf_counter()
    await embed()
    return time.perf_counter() - started
