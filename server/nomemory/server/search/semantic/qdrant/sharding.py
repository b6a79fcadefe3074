"""Distribute a collection over the nodes of a Qdrant cluster.

All points of a user are in one shard, which is selected by a hash of the user id. A request for a user therefore
reaches only one shard.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from nomemory.server.runtime.settings import Settings
from nomemory.server.search.semantic.protocol import VectorPoint


@dataclass(frozen=True, slots=True)
class QdrantSharding:
    """The shard keys and replicas of a collection.

    Attributes:
        buckets: the number of shard keys. With 0 shard keys, the Qdrant server distributes the points.
        replicas: the number of copies of each shard.
    """

    buckets: int = 0
    replicas: int = 1

    @classmethod
    def from_settings(cls, settings: Settings) -> QdrantSharding:
        """Return the number of shard keys and replicas that the settings specify."""
        return cls(settings.vector.qdrant_shard_keys, settings.vector.qdrant_replication_factor)

    @property
    def write_consistency(self) -> int:
        """The number of copies that must acknowledge a write: a majority."""
        return self.replicas // 2 + 1

    @property
    def is_replicated(self) -> bool:
        """Whether each shard has several copies, whose contents can differ."""
        return self.replicas > 1

    @property
    def shard_keys(self) -> list[str]:
        """All shard keys."""
        return [_build_bucket_key(bucket) for bucket in range(self.buckets)]

    def get_shard_key(self, user_id: str) -> str | None:
        """Return the shard key of a user's points; None if there are no shard keys."""
        return _build_bucket_key(_compute_user_bucket(user_id, self.buckets)) if self.buckets else None

    def build_collection_name(self, collection: str) -> str:
        """Return the name of a collection on the server.

        The name contains the number of buckets, because points cannot be redistributed.
        """
        return f"{collection}{self.suffix}"

    @property
    def suffix(self) -> str:
        """The suffix of the names of collections with this number of buckets."""
        return f"-b{self.buckets}" if self.buckets else ""

    def group_by_key(self, points: Sequence[VectorPoint]) -> Iterator[tuple[str | None, list[VectorPoint]]]:
        """Group points by shard key."""
        groups: dict[str | None, list[VectorPoint]] = defaultdict(list)
        for point in points:
            groups[self.get_shard_key(point.user_id)].append(point)
        yield from groups.items()


def _compute_user_bucket(user_id: str, buckets: int) -> int:
    return int.from_bytes(blake2b(user_id.encode(), digest_size=8).digest()) % buckets


def _build_bucket_key(bucket: int) -> str:
    return f"bucket-{bucket:03}"
