"""The models that the local embedder may run: that of a package, or one of the operator's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from nomemory.server.embedding.onnx.capacity import Capacity
from nomemory.server.embedding.onnx.installed import PACKAGE
from nomemory.server.embedding.vector import Vector

PACKAGE_MODEL: Final = "multilingual-e5-small-int8"
"""Another name than that of versions before, whose engine gave other vectors: the two are never compared."""
PACKAGE_DIMENSION: Final = 384

_FILES: Final = ("model.onnx", "tokenizer.json")
_DIGEST_SHOWN: Final = 12


class LocalModelError(Exception):
    """The model cannot be used; the text says why."""


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
    return LocalModel(PACKAGE_MODEL, PACKAGE_DIMENSION, f"{PACKAGE} {version(PACKAGE)}", (str(models),))


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
    described = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "nomemory.server.embedding.onnx.describe", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if described.returncode:
        raise LocalModelError(f"{path}: {(described.stderr.splitlines() or ['it cannot be loaded'])[-1]}")
    found = json.loads(described.stdout)
    name = f"{path.name}-{found['digest'][:_DIGEST_SHOWN]}"
    return LocalModel(name, found["dimension"], str(path), arguments)


def load(arguments: Sequence[str], capacity: Capacity) -> TextModel:
    """Load a model into this process.

    Raises:
        OSError: there is no room for it, or it is gone.
        WeightsError: the package's weights are of another format.
    """
    # Imported late: the server itself holds no model.
    if len(arguments) == 1:
        from nomemory.server.embedding.onnx.converted import load_model  # noqa: PLC0415

        return load_model(Path(arguments[0]), capacity)
    from nomemory.server.embedding.onnx.directory_model import DirectoryModel, directory_of  # noqa: PLC0415

    return DirectoryModel(directory_of(arguments), capacity)
