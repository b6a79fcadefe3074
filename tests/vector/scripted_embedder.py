"""An embedder whose behaviour a test controls, and messages for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from nomemory.server.embedding.protocol import TextRejectedError, build_embedder_unavailable_fault
from nomemory.server.embedding.vector import Vector
from nomemory.server.message import Message, Role

DIMENSION = 8


def vector_of(text: str) -> Vector:
    """Return a unit vector that is unique to a text."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype("<f4").tobytes()


class ScriptedEmbedder:
    """Embeds by hashing. It rejects `refused`, fails on `broken` and while `down`, and waits for `gate`."""

    model = "scripted"
    dimension = DIMENSION

    def __init__(self, kind: str = "local") -> None:
        self.kind = kind
        self.calls: list[list[str]] = []
        self.refused: set[str] = set()
        self.broken: set[str] = set()
        self.down: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()

    @property
    def texts(self) -> list[str]:
        return [text for call in self.calls for text in call]

    async def embed_query(self, text: str) -> Vector:
        return vector_of(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.calls.append(list(texts))
        self.called.set()
        await self.gate.wait()
        if self.down is not None:
            raise self.down
        if self.broken.intersection(texts):
            raise build_embedder_unavailable_fault("the embedder fails", "server_error")
        for position, text in enumerate(texts):
            if text in self.refused:
                raise TextRejectedError(position, "refused")
        return [vector_of(text) for text in texts]

    async def close(self) -> None:
        """Do nothing."""


def new_message(content: str, message_id: str = "m1", user_id: str = "ann", embedding: Vector | None = None) -> Message:
    return Message(user_id, message_id, 1_000, Role.USER, content, embedding=embedding)
