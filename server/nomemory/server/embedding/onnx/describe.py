"""Say what a directory's model is: `python -m … DIRECTORY QUERY_PREFIX DOCUMENT_PREFIX POOLING`.

In a process of its own: the server need not hold the model for it, and what is broken may break it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from nomemory.server.embedding.l2_normalise import NUMBER, UnusableVectorError, l2_normalise
from nomemory.server.embedding.onnx.capacity import Capacity
from nomemory.server.embedding.onnx.directory_model import DirectoryModel, directory_of


def main(arguments: list[str]) -> None:
    """Print a line of JSON: the digest of what decides the vectors, and how many numbers they have."""
    directory = directory_of(arguments)
    (vector,) = DirectoryModel(directory, Capacity()).encode(["tea"], is_query=False)
    dimension = len(vector) // NUMBER.itemsize
    try:
        l2_normalise(vector, dimension)
    except UnusableVectorError as error:
        sys.exit(f"its vectors cannot be used: each {error}")
    digest = hashlib.sha256("\0".join(arguments[1:]).encode())
    for path in sorted(directory.path.iterdir()):
        if path.is_file():
            digest.update(_digest(path))
    sys.stdout.write(json.dumps({"digest": digest.hexdigest(), "dimension": dimension}) + "\n")


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


if __name__ == "__main__":
    main(sys.argv[1:])
