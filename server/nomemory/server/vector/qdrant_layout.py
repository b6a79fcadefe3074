"""How a collection is spread over a Qdrant cluster: which users' points lie together, and in how many copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nomemory.server.settings import Settings
from nomemory.server.vector.protocol import VectorPoint
from nomemory.server.vector.shard_layout import shard_of


@dataclass(frozen=True, slots=True)
class QdrantLayout:
    """How a collection is spread.

    Attributes:
        buckets: how many shard keys there are; each user's points lie in one of them. 0: the server has no keys, and
            spreads points as it likes.
        replicas: copies of each shard.
        acknowledged: how many copies have to have a write before it counts. 0: more than half.
    """

    buckets: int = 0
    replicas: int = 1
    acknowledged: int = 0

    @classmethod
    def of(cls, settings: Settings) -> QdrantLayout:
        """Return the layout of the settings."""
        return cls(settings.vector.qdrant_buckets, settings.vector.qdrant_replicas, settings.vector.qdrant_acknowledged)

    @property
    def write_consistency(self) -> int:
        """How many copies have to have a write before it counts, at most all of them."""
        return min(self.acknowledged or self.replicas // 2 + 1, self.replicas)

    @property
    def is_copied(self) -> bool:
        """Whether there is more than one copy, so that one may know less than another."""
        return self.replicas > 1

    @property
    def keys(self) -> list[str]:
        """All shard keys."""
        return [_key(bucket) for bucket in range(self.buckets)]

    def key_of(self, user_id: str) -> str | None:
        """Return the shard key of a user's points; None without buckets."""
        return _key(shard_of(user_id, self.buckets)) if self.buckets else None

    def named(self, collection: str) -> str:
        """Name a collection on the server. With other buckets it is another one: keys cannot be dealt anew."""
        return f"{collection}{self.suffix}"

    @property
    def suffix(self) -> str:
        """What the names of collections of this layout end with."""
        return f"-b{self.buckets}" if self.buckets else ""

    def parted(self, points: Sequence[VectorPoint]) -> Iterator[tuple[str | None, list[VectorPoint]]]:
        """Part points by shard key."""
        parts: dict[str | None, list[VectorPoint]] = defaultdict(list)
        for point in points:
            parts[self.key_of(point.user_id)].append(point)
        yield from parts.items()


def _key(bucket: int) -> str:
    return f"bucket-{bucket:03}"
