"""A model that the package fastembed knows by its name, from the hub that it downloads from.

As a program it says what the model is, and downloads it if need be: `python -m … NAME MODELS QUERY_PREFIX
DOCUMENT_PREFIX`. The server need not hold the model for it, nor what downloads it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from huggingface_hub import model_info
from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # it imports the last one

from nomemory.server.embedding.l2_normalise import NUMBER, UnusableVectorError, l2_normalise
from nomemory.server.embedding.named_models import DEFAULT_MODEL, LocalModelError, Prefixes
from nomemory.server.embedding.onnx.session import Capacity, SideBySide
from nomemory.server.embedding.vector import Vector, batches

_BATCH_CHARS: Final = 1000
_HUB_S: Final = 10.0
_DEFAULT_DIMENSION: Final = 384
_DEFAULT_FILE: Final = "onnx/model.onnx"
_UNREACHABLE: Final = (OSError, ValueError, HTTPError)
"""The last is that of whichever HTTP client the hub's package uses; its errors of connections are no `OSError`."""


class FastembedModel:
    """Embeds texts with a model that is on the disk.

    Args:
        name: as fastembed writes it.
        models: where fastembed keeps its models.
        prefixes: what stands before a text.
        capacity: how much it may use.

    Attributes:
        directory: where the model is; named after its revision.

    Raises:
        LocalModelError: it is not there.
    """

    def __init__(self, name: str, models: Path, prefixes: Prefixes, capacity: Capacity) -> None:
        _refuse_unknown(name)
        self._prefixes = prefixes
        self._side_by_side = SideBySide(capacity.at_once)
        try:
            self._model = TextEmbedding(name, str(models), capacity.threads, local_files_only=True)
        except (OSError, ValueError) as error:
            raise LocalModelError(f"{name} is not in {models}, or not whole") from error
        found = self._model.model
        self.directory = Path(found.download_model(found.model_description, str(models), local_files_only=True))

    def encode(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        """Embed texts. What a text has beyond the model's length is left out."""
        if is_query:
            return _packed(self._model.query_embed([self._prefixes.query + text for text in texts]))
        found = list(batches(list(map(len, texts)), _BATCH_CHARS))
        vectors: dict[int, Vector] = {}
        together = [[self._prefixes.document + texts[place] for place in batch] for batch in found]
        for batch, embedded in zip(found, self._side_by_side.results(self._documents, together), strict=True):
            vectors.update(zip(batch, embedded, strict=True))
        return [vectors[place] for place in range(len(texts))]

    def _documents(self, texts: Sequence[str]) -> list[Vector]:
        return _packed(self._model.passage_embed(texts))


def download(name: str, models: Path) -> None:
    """Download a model.

    Raises:
        LocalModelError: the hub cannot be reached, or does not give it.
    """
    _refuse_unknown(name)
    source = next(each["sources"]["hf"] for each in TextEmbedding.list_supported_models() if _is(each["model"], name))
    try:
        model_info(source, timeout=_HUB_S)  # first: fastembed itself tries for 40 s
    except HfHubHTTPError as error:
        raise LocalModelError(f"{name} is not in {models}, and the model hub does not give it") from error
    except _UNREACHABLE as error:
        raise LocalModelError(f"{name} is not in {models}, and the model hub cannot be reached") from error
    try:
        TextEmbedding(name, str(models), lazy_load=True)
    except (OSError, ValueError) as error:
        raise LocalModelError(f"{name} could not be downloaded into {models}") from error


def _refuse_unknown(name: str) -> None:
    """Add the default model to those that fastembed knows; refuse what it does not know.

    Raises:
        LocalModelError: see there.
    """
    known = {each["model"].casefold() for each in TextEmbedding.list_supported_models()}
    if DEFAULT_MODEL.casefold() not in known:
        source = ModelSource(hf=DEFAULT_MODEL)
        TextEmbedding.add_custom_model(
            DEFAULT_MODEL,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=source,
            dim=_DEFAULT_DIMENSION,
            model_file=_DEFAULT_FILE,
        )
    if name.casefold() not in known | {DEFAULT_MODEL.casefold()}:
        raise LocalModelError(f"fastembed knows no model {name}")


def _is(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _packed(vectors: Iterable[npt.NDArray[np.float32]]) -> list[Vector]:
    return [np.asarray(vector, "<f4").tobytes() for vector in vectors]


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
