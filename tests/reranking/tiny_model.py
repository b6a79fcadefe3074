"""A cross-encoder of a few nodes: the more words of a text stand in the question, the better it answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = ("[PAD]", "[UNK]", "[SEP]", "where", "is", "the", "key", "under", "a", "stone", "blue")
_FLOAT, _INT64 = 1, 7
_VARINT, _BYTES = 0, 2


def write_model(directory: Path) -> Path:
    """Write `model.onnx` and `tokenizer.json`."""
    directory.mkdir()
    (directory / "model.onnx").write_bytes(_model())
    _tokenizer().save(str(directory / "tokenizer.json"))
    return directory


def _tokenizer() -> Tokenizer:
    numbers = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(WordLevel(numbers, unk_token="[UNK]"))  # noqa: S106 - a token of another kind
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B:1", special_tokens=[("[SEP]", numbers["[SEP]"])]
    )
    return tokenizer


def _model() -> bytes:
    """Count the pairs of equal tokens, one in the question and one in the text; a logit is 4 for each, less 2."""
    nodes = [
        _node("Unsqueeze", ["input_ids", "second"], "rows"),
        _node("Unsqueeze", ["input_ids", "first"], "columns"),
        _node("Equal", ["rows", "columns"], "equal"),
        _node("Cast", ["equal"], "same", to=_INT64),
        _node("Sub", ["attention_mask", "token_type_ids"], "of_question"),
        _node("Unsqueeze", ["of_question", "second"], "asked"),
        _node("Unsqueeze", ["token_type_ids", "first"], "told"),
        _node("Mul", ["asked", "told"], "across"),
        _node("Mul", ["same", "across"], "met"),
        _node("ReduceSum", ["met", "both"], "count", keepdims=0),
        _node("Mul", ["count", "four"], "worth"),
        _node("Sub", ["worth", "two"], "whole"),
        _node("Cast", ["whole"], "logits", to=_FLOAT),
    ]
    constants = {"first": [1], "second": [2], "both": [1, 2], "four": [4], "two": [2]}
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = b"".join(
        [
            *(_field(1, node) for node in nodes),
            _field(2, b"tiny"),
            *(_field(5, _tensor(name, values)) for name, values in constants.items()),
            *(_field(11, _value(name, _INT64, ("pairs", "tokens"))) for name in inputs),
            _field(12, _value("logits", _FLOAT, ("pairs",))),
        ]
    )
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 13))


def _node(operator: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    made = [_field(1, name.encode()) for name in inputs]
    made += [_field(2, output.encode()), _field(4, operator.encode())]
    made += [
        _field(5, _field(1, name.encode()) + _number(3, value) + _number(20, 2)) for name, value in attributes.items()
    ]
    return b"".join(made)


def _tensor(name: str, values: Sequence[int]) -> bytes:
    numbers = np.array(values, "<i8").tobytes()
    return _number(1, len(values)) + _number(2, _INT64) + _field(8, name.encode()) + _field(9, numbers)


def _value(name: str, element: int, shape: Sequence[str]) -> bytes:
    sizes = b"".join(_field(1, _field(2, size.encode())) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, element) + _field(2, sizes)))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
