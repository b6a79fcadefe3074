"""Say what a named model is, and download it if need be: `python -m … NAME MODELS QUERY_PREFIX DOCUMENT_PREFIX`.

In a process of its own: the server need not hold the model for it, nor what downloads it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from nomemory.server.embedding.fastembed_model import FastembedModel, download
from nomemory.server.embedding.l2_normalise import NUMBER, UnusableVectorError, l2_normalise
from nomemory.server.embedding.local_model_error import LocalModelError
from nomemory.server.embedding.named_models import Prefixes
from nomemory.server.embedding.onnx.capacity import Capacity


def main(name: str, models: Path, prefixes: Prefixes) -> None:
    """Print a line of JSON: the digest of what decides the vectors, how many numbers they have, and where it is."""
    try:
        model = _loaded(name, models, prefixes)
        (vector,) = model.encode(["tea"], is_query=False)
        dimension = len(vector) // NUMBER.itemsize
        l2_normalise(vector, dimension)
    except LocalModelError as error:
        sys.exit(str(error))
    except UnusableVectorError as error:
        sys.exit(f"its vectors cannot be used: each {error}")
    decides = (name, model.directory.name, prefixes.query, prefixes.document)
    digest = hashlib.sha256("\0".join(decides).encode()).hexdigest()
    found = {"digest": digest, "dimension": dimension, "directory": str(model.directory)}
    sys.stdout.write(json.dumps(found) + "\n")


def _loaded(name: str, models: Path, prefixes: Prefixes) -> FastembedModel:
    try:
        return FastembedModel(name, models, prefixes, Capacity())
    except LocalModelError:
        download(name, models)
        return FastembedModel(name, models, prefixes, Capacity())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Prefixes(*sys.argv[3:]))
