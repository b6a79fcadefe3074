"""Say what a directory's model is: `python -m … DIRECTORY QUERY_PREFIX DOCUMENT_PREFIX POOLING`.

In a process of its own: the server need not hold the model for it, and what is broken may break it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from nomemory.server.embedding.l2_normalise import NUMBER, UnusableVectorError, l2_normalise
from nomemory.server.embedding.local_model_error import LocalModelError
from nomemory.server.embedding.onnx.capacity import Capacity
from nomemory.server.embedding.onnx.directory_model import DirectoryModel, directory_of

_DIMENSION_MIN: Final = 2


def main(arguments: list[str]) -> None:
    """Print a line of JSON: the digest of what decides the vectors, and how many numbers they have."""
    directory = directory_of(arguments)
    sys.excepthook = _say
    try:
        dimension = _dimension(DirectoryModel(directory, Capacity()))
    except LocalModelError as error:
        sys.exit(str(error))
    except UnusableVectorError as error:
        sys.exit(f"its vectors cannot be used: each {error}")
    digest = hashlib.sha256("\0".join(arguments[1:]).encode())
    for path in sorted(directory.path.iterdir()):
        if path.is_file():
            digest.update(_digest(path))
    sys.stdout.write(json.dumps({"digest": digest.hexdigest(), "dimension": dimension}) + "\n")


def _dimension(model: DirectoryModel) -> int:
    """Embed a text and each end of the vocabulary; return how many numbers a vector has."""
    (vector,) = model.encode(["tea"], is_query=False)
    dimension = len(vector) // NUMBER.itemsize
    l2_normalise(vector, dimension)
    if dimension < _DIMENSION_MIN:
        raise LocalModelError("it gives a text one number, as a reranker does, and no vector")
    model.embed_tokens([[0, model.largest_token]])  # fails where the tokenizer is of another model
    return dimension


def _say(_kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
    """Say in a line what one of the packages raised: they have no class in common."""
    sys.stderr.write(f"the model or its tokenizer cannot be used: {' '.join(str(error).split())}\n")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


if __name__ == "__main__":
    main(sys.argv[1:])
