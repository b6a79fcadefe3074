"""The comparison of the vector index with the log, while work comes into the index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from nomemory.server.log.feed import Touched
from nomemory.server.log.position import FeedPosition
from nomemory.server.vector.comparison import Comparison
from nomemory.server.vector.expected_points import Compared, ExpectedPoints, Orphan
from nomemory.server.vector.protocol import StoredPoints

LATE, LOST = Touched(1, "u", "late"), Touched(2, "u", "lost")


class Expected:
    """Says of the messages that were not read that they are wrong, and of others that were that they are gone."""

    def users(self, after: str) -> list[str]:
        return [] if after else ["u"]

    def compared(self, _users: Sequence[str], stored: Sequence[Counter[int]], _until: int) -> Compared:
        orphans = [one for one in (ORPHAN, LEAVING) if one.sequence in stored[0]]
        return Compared(2, [one for one in (LATE, LOST) if one.sequence not in stored[0]], orphans)


ORPHAN, LEAVING = Orphan("u", 3), Orphan("u", 4)


async def here(job: Callable[[], Any], /) -> Any:  # noqa: ANN401 - whatever the job returns
    return job()


async def test_what_came_into_the_index_or_left_it_while_it_was_read_is_not_wrong() -> None:
    reads = iter([StoredPoints([Counter({3: 1, 4: 1})], 0), StoredPoints([Counter({1: 1, 3: 1})], 0)])
    reported, cleared = list[Touched](), list[Orphan]()

    async def read(user_ids: Sequence[str], *, with_vectors: bool) -> StoredPoints:
        assert (with_vectors, user_ids) == (True, ["u"])
        return next(reads)

    async def report(wrong: Sequence[Touched]) -> None:
        reported.extend(wrong)

    async def users() -> list[str]:
        return ["u"]

    async def clear(orphans: Sequence[Orphan]) -> None:
        cleared.extend(orphans)

    expected, until = cast("ExpectedPoints", Expected()), FeedPosition.at(2)
    found = await Comparison(read, expected, here, until, report, users, clear).run()
    assert (found.mismatched, reported) == (1, [LOST])
    assert (found.orphans, cleared) == (1, [ORPHAN])
