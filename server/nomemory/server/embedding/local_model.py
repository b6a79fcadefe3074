"""The models that the local embedder may run: that of a package, one of the operator's, or one by its name."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from nomemory.server.embedding.named_models import PACKAGE, LocalModelError, Prefixes
from nomemory.server.embedding.onnx.session import Capacity
from nomemory.server.embedding.vector import Vector

PACKAGE_MODEL: Final = "multilingual-e5-small-int8"
"""Another name than that of versions before, whose engine gave other vectors: the two are never compared."""
PACKAGE_DIMENSION: Final = 384

_FILES: Final = ("model.onnx", "tokenizer.json")
_DIGEST_SHOWN: Final = 12


class Source(StrEnum):
    """Where a model is from."""

    PACKAGE = "package"
    DIRECTORY = "directory"
    NAME = "name"


class TextModel(Protocol):
    """A model in this process."""

    def encode(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        """Embed texts."""


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model, and how a process loads it.

    Attributes:
        name: another one for each model whose vectors differ.
        origin: where its weights are from, for people.
        arguments: for `load`.
    """

    name: str
    dimension: int
    origin: str
    arguments: tuple[str, ...]


def package_model(models: Path) -> LocalModel:
    """Return the model of the package, which is converted into a directory of models."""
    return LocalModel(PACKAGE_MODEL, PACKAGE_DIMENSION, f"{PACKAGE} {version(PACKAGE)}", (Source.PACKAGE, str(models)))


def directory_model(path: Path, query_prefix: str, document_prefix: str, pooling: str) -> LocalModel:
    """Look at a model of the operator's, in another process (1 s).

    Raises:
        LocalModelError: there is none, or it cannot be used.
    """
    for name in _FILES:
        if not (path / name).is_file():
            raise LocalModelError(f"{path} has no {name}")
    for package in ("onnxruntime", "tokenizers"):
        if find_spec(package) is None:
            raise LocalModelError("a model of your own needs more packages: pip install 'nomemory[tokenizers]'")
    arguments = (str(path), query_prefix, document_prefix, pooling)
    try:
        found = _described("nomemory.server.embedding.onnx.directory_model", arguments)
    except LocalModelError as error:
        raise LocalModelError(f"{path}: {error}") from None
    name = f"{path.name}-{found['digest'][:_DIGEST_SHOWN]}"
    return LocalModel(name, found["dimension"], str(path), (Source.DIRECTORY, *arguments))


def named_model(name: str, models: Path, prefixes: Prefixes) -> LocalModel:
    """Look at a model that fastembed knows by its name, and download it if need be, in another process (3 s).

    Raises:
        LocalModelError: there is none, it cannot be downloaded, or it cannot be used.
    """
    if find_spec("fastembed") is None:
        raise LocalModelError("a model by its name needs one more package: pip install 'nomemory[fastembed]'")
    arguments = (name, str(models), prefixes.query, prefixes.document)
    found = _described("nomemory.server.embedding.fastembed_model", arguments)
    shown = f"{name.rpartition('/')[2]}-{found['digest'][:_DIGEST_SHOWN]}"
    return LocalModel(shown, found["dimension"], f"fastembed, {found['directory']}", (Source.NAME, *arguments))


def _described(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", module, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LocalModelError((done.stderr.splitlines() or ["it cannot be loaded"])[-1])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def load(arguments: Sequence[str], capacity: Capacity) -> TextModel:
    """Load a model into this process.

    Raises:
        OSError: there is no room for it, or it is gone.
        WeightsError: the package's weights are of another format.
        LocalModelError: fastembed does not have it.
    """
    # Imported late: the server itself holds no model.
    source, *rest = arguments
    if source == Source.PACKAGE:
        from nomemory.server.embedding.onnx.converted import load_model  # noqa: PLC0415

        return load_model(Path(rest[0]), capacity)
    if source == Source.NAME:
        from nomemory.server.embedding.fastembed_model import FastembedModel  # noqa: PLC0415

        name, models, query_prefix, document_prefix = rest
        return FastembedModel(name, Path(models), Prefixes(query_prefix, document_prefix), capacity)
    from nomemory.server.embedding.onnx.directory_model import DirectoryModel, directory_of  # noqa: PLC0415

    return DirectoryModel(directory_of(rest), capacity)


TEXTS: Final = (
    (
        "I moved to the flat above the bakery in March, and the smell of bread still wakes me before the alarm does, "
        "even though I have slept with the window shut ever since the frost came."
    ),
    (
        "Could you remind Anna that the report on the new tram line is due on Friday, and that I will bring the maps? "
        "She wanted the old ones too, with the notes that we took at the depot."
    ),
    "That sounds lovely! How long did the two of you stay at the lake?",
    "我从小就不吃辣椒，因为胃不好，所以聚餐的时候麻烦帮我点一份清淡的菜，汤也不要太油，米饭有没有都可以。",
    "下周三下午三点我们在图书馆门口见面，记得带上身份证和上次借的那两本书，如果下雨就改到一楼的咖啡店里等。",
)
"""As long as messages in a chat are: 37 tokens on average."""
QUERY: Final = "When is the report on the tram due?"
_TOGETHER: Final = 4
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class LocalSpeed:
    """The CPU time of a model.

    Attributes:
        texts_per_cpu_s: messages, in batches.
        query_cpu_ms: a query of twelve tokens, alone.
    """

    texts_per_cpu_s: float
    query_cpu_ms: float


def measured(model: TextModel) -> LocalSpeed:
    """Embed some texts in this process (1 s). The first ones are not counted."""
    texts = TEXTS * _TOGETHER
    batch_s = _cpu_s(lambda: model.encode(texts, is_query=False))
    query_s = _cpu_s(lambda: model.encode([QUERY], is_query=True))
    return LocalSpeed(round(len(texts) / batch_s, 1), round(1000 * query_s, 2))


def _cpu_s(work: Callable[[], object]) -> float:
    """Return the mean CPU time of some work, done several times."""
    work()
    before_s = time.process_time()
    for _ in range(_ROUNDS):
        work()
    return (time.process_time() - before_s) / _ROUNDS
