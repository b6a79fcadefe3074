"""The models that the local embedder may run: that of a package, one of the operator's, or one by its name."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from nomemory.server.embedding.local_model_error import LocalModelError
from nomemory.server.embedding.named_models import Prefixes
from nomemory.server.embedding.onnx.capacity import Capacity
from nomemory.server.embedding.onnx.installed import PACKAGE
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
        found = _described("nomemory.server.embedding.onnx.describe", arguments)
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
    found = _described("nomemory.server.embedding.fastembed_description", arguments)
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
