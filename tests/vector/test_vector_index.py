"""The contract of vector indexes, for all engines."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.embedding.vector import Vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.message import Role
from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.semantic.edge.index import EdgeIndex
from nomemory.server.search.semantic.protocol import VectorIndex, VectorPoint
from nomemory.server.search.semantic.qdrant.index import QdrantIndex, create_client

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:.*[Ll]ocal (Qdrant|mode):UserWarning"),
]

DIMENSION = 8
FAR_FUTURE_US = 253_402_300_799_999_999
QDRANT_URL = os.environ.get("NOMEMORY_TEST_QDRANT_URL")


def vector(*numbers: float) -> Vector:
    return np.array([*numbers, *[0.0] * (DIMENSION - len(numbers))], dtype="<f4").tobytes()


def point(message_id: str, numbers: Vector, **fields: object) -> VectorPoint:
    plain = VectorPoint("ann", message_id, 0, sequence_of(message_id), 1_000, Role.USER, "", numbers)
    return replace(plain, **fields)  # type: ignore[arg-type] # fields are checked where they are used


def sequence_of(message_id: str) -> int:
    return int.from_bytes(message_id.encode()[:7], "big")


def edge(directory: Path) -> VectorIndex:
    return EdgeIndex(directory / "edge", DIMENSION, timeout_s=20)


def memory(_: Path) -> VectorIndex:
    return QdrantIndex(create_client(":memory:", None, 20), "test", DIMENSION)


def server(_: Path) -> VectorIndex:
    if QDRANT_URL is None:
        pytest.skip("set NOMEMORY_TEST_QDRANT_URL to test against a Qdrant server")
    return QdrantIndex(create_client(QDRANT_URL, None, 20), f"nomemory-test-{uuid.uuid4().hex}", DIMENSION)


Open = Callable[[Path], VectorIndex]


ENGINES = [edge, memory, server]


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=ENGINES)
async def shared_index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[VectorIndex]:
    async with opened(request.param, tmp_path_factory.mktemp("index")) as index:
        yield index


@pytest_asyncio.fixture(loop_scope="module")
async def index(shared_index: VectorIndex) -> AsyncIterator[VectorIndex]:
    """An index without points. The tests of an engine share it, because `EdgeIndex` starts a process."""
    yield shared_index
    if isinstance(shared_index, QdrantIndex):
        await shared_index.reset()  # which is fast here, but restarts the process of `EdgeIndex`
        return
    users = sorted(await shared_index.list_users())
    stored = await shared_index.read_points(users, with_vectors=False)
    for user_id, counts in zip(users, stored.counts_by_user, strict=True):
        await shared_index.remove_versions(user_id, list(counts))


@asynccontextmanager
async def opened(open_index: Open, directory: Path) -> AsyncIterator[VectorIndex]:
    index = open_index(directory)
    try:
        yield index
    finally:
        if isinstance(index, QdrantIndex):
            await index._client.delete_collection(index._collection)
        await index.close()


async def nearest(
    index: VectorIndex, numbers: Vector, message_filter: Filter = EVERYTHING, limit: int = 10
) -> list[int]:
    return [hit.sequence for hit in await index.search("ann", numbers, message_filter, limit)]


async def test_hits_are_ordered_by_score_then_newest_first(index: VectorIndex) -> None:
    await index.upsert(
        [
            point("far", vector(-1, 0)),
            point("old", vector(1, 1), ts_us=5),
            point("new", vector(2, 2), ts_us=6),
            point("near", vector(1, 0)),
        ]
    )
    hits = await index.search("ann", vector(3, 0), EVERYTHING, 10)
    assert [hit.sequence for hit in hits] == [sequence_of(name) for name in ("near", "new", "old", "far")]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5, 0.5**0.5, -1], abs=1e-6)
    assert all(-1 <= hit.score <= 1 for hit in hits)


async def test_a_message_is_scored_by_its_best_part(index: VectorIndex) -> None:
    parts = [point("long", vector(1, part), part=part) for part in range(40)]
    await index.upsert([*parts, point("other", vector(1, 5))])
    hits = await index.search("ann", vector(1, 0), EVERYTHING, 2)
    assert [hit.sequence for hit in hits] == [sequence_of("long"), sequence_of("other")]
    assert hits[0].score == pytest.approx(1)


async def test_a_message_with_many_parts_does_not_displace_others(index: VectorIndex) -> None:
    parts = [point("long", vector(1, part / 1000), part=part) for part in range(150)]
    await index.upsert([*parts, point("other", vector(0, 1)), point("third", vector(-1, 0))])
    assert await nearest(index, vector(1, 0), limit=2) == [sequence_of("long"), sequence_of("other")]


async def test_ties_are_never_split(index: VectorIndex) -> None:
    twins = [point(f"t{number:03}", vector(1, 1), ts_us=number) for number in range(120)]
    await index.upsert([*twins, point("best", vector(1, 0)), point("worst", vector(0, 1))])
    newest_first = [sequence_of(twin.message_id) for twin in reversed(twins)]
    assert await nearest(index, vector(1, 0), limit=1) == [sequence_of("best")]
    assert await nearest(index, vector(1, 0), limit=2) == [sequence_of("best"), *newest_first]


async def test_other_users_are_never_found(index: VectorIndex) -> None:
    same_id = "m1"
    odd = ["bob", "ANN", "ann ", "an", "annn", 'ann" OR 1', "安", "*", ""]
    await index.upsert([point(same_id, vector(0, 1)), *(point(same_id, vector(1), user_id=user) for user in odd)])
    hits = await index.search("ann", vector(1), EVERYTHING, 10)
    assert [(hit.sequence, hit.score) for hit in hits] == [(sequence_of(same_id), 0.0)]
    await index.remove("bob", same_id)
    assert await index.count() == len(odd)
    assert len(await index.search("ann", vector(1), EVERYTHING, 10)) == 1


async def test_stored_vectors_are_normalized(index: VectorIndex) -> None:
    stored = [point("m1", vector(3, 4)), point("m1", vector(0, 1), part=1), point("m2", vector(-2))]
    await index.upsert([*stored, point("m3", vector(1), user_id="bob"), point("m4", vector(1), part=1)])
    vectors = await index.read_vectors("ann", ["m2", "m1", "m3", "m4", "unknown", "m1"])
    numbers = {message_id: np.frombuffer(vectors[message_id], dtype="<f4")[:2].tolist() for message_id in vectors}
    assert numbers == {"m1": pytest.approx([0.6, 0.8]), "m2": pytest.approx([-1, 0])}
    assert await index.read_vectors("nobody", ["m1"]) == {}
    assert await index.read_vectors("ann", []) == {}
    await index.upsert([point("m1", vector(0, 7))])
    await index.remove("ann", "m2")
    vectors = await index.read_vectors("ann", ["m1", "m2"])
    assert list(vectors) == ["m1"]
    assert np.frombuffer(vectors["m1"], dtype="<f4").tolist() == pytest.approx([0, 1, *[0] * (DIMENSION - 2)])


async def test_time_ranges_are_half_open_to_the_microsecond(index: VectorIndex) -> None:
    times = [-62_135_596_800_000_000, -1, 0, 1, 1_700_000_000_000_001, FAR_FUTURE_US - 1, FAR_FUTURE_US]
    await index.upsert([point(f"t{n}", vector(1), ts_us=ts, sequence=ts) for n, ts in enumerate(times)])
    for since in times:
        for until in times:
            expected = [ts for ts in reversed(times) if since <= ts < until]
            assert await nearest(index, vector(1), Filter(since_us=since, until_us=until)) == expected


async def test_a_point_with_the_same_user_message_and_part_is_overwritten(index: VectorIndex) -> None:
    await index.upsert([point("m", vector(1), ts_us=1, sequence=1)])
    await index.upsert([point("m", vector(0, 1), ts_us=9, sequence=2, role=Role.SYSTEM)])
    hits = await index.search("ann", vector(0, 1), EVERYTHING, 5)
    assert [(hit.sequence, hit.ts_us) for hit in hits] == [(2, 9)]
    assert await nearest(index, vector(1), Filter(role=Role.USER)) == []


async def test_a_part_and_all_later_parts_are_removed(index: VectorIndex) -> None:
    await index.upsert([point("m", vector(1, part), part=part, sequence=part) for part in range(100)])
    await index.remove("ann", "m", from_part=3)
    assert sorted(await nearest(index, vector(1), limit=100)) == [0, 1, 2]
    await index.remove("ann", "m")
    assert await index.count() == 0
    await index.remove("ann", "m")


async def test_all_messages_with_surplus_parts_are_reported(index: VectorIndex) -> None:
    await index.upsert([point("m", vector(1, part), part=part) for part in range(3)])
    await index.upsert([point("m", vector(1), user_id="bob")])
    kept_parts = {("ann", "m"): 2, ("bob", "m"): 0, ("ann", "none"): 0}
    assert {("ann", "m"), ("bob", "m")} <= set(await index.find_surplus_messages(kept_parts)) <= set(kept_parts)
    assert set(await index.find_surplus_messages({})) == set()


async def test_the_vectors_of_a_version_are_read_back_part_by_part(index: VectorIndex) -> None:
    parts = [point("m", vector(3, part), part=part) for part in range(40)]
    await index.upsert([*parts, point("m", vector(1), part=40, sequence=7), point("m", vector(1), user_id="bob")])
    read = [np.frombuffer(item, "<f4") for item in await index.read_version_vectors("ann", "m", sequence_of("m"))]
    expected = [np.frombuffer(part.vector, "<f4") / np.linalg.norm(np.frombuffer(part.vector, "<f4")) for part in parts]
    assert np.allclose(read, expected, atol=1e-6)
    assert await index.read_version_vectors("ann", "m", 7) == await index.read_version_vectors("ann", "none", 7) == []


async def test_a_replaced_point_has_the_new_metadata(index: VectorIndex) -> None:
    old, new = (("app", "a"),), (("app", "b"),)
    await index.upsert(
        [
            point("m", vector(1), metadata_hashes=compute_entry_hashes(old)),
            point("other", vector(1), metadata_hashes=compute_entry_hashes(old)),
        ]
    )
    await index.upsert([point("m", vector(1), metadata_hashes=compute_entry_hashes(new))])
    assert await nearest(index, vector(1), Filter(metadata=old)) == [sequence_of("other")]
    assert await nearest(index, vector(1), Filter(metadata=new)) == [sequence_of("m")]
    await index.upsert([point("m", vector(1))])
    assert await nearest(index, vector(1), Filter(metadata=new)) == []


@pytest.mark.parametrize("open_index", ENGINES)
async def test_a_new_index_returns_nothing(open_index: Open, tmp_path: Path) -> None:
    async with opened(open_index, tmp_path) as index:
        assert await index.count() == 0
        assert await nearest(index, vector(1)) == []
        await index.remove("ann", "m")
        await index.flush()
        await index.upsert([])


@pytest.mark.parametrize(
    "bad",
    [b"", vector(1)[:-4], vector(1) + vector(1), vector(0), vector(float("nan")), vector(1, float("inf"))],
    ids=["nothing", "short", "long", "zero", "nan", "infinite"],
)
async def test_unusable_vectors_are_rejected_before_any_is_stored(index: VectorIndex, bad: Vector) -> None:
    calls: Sequence[Awaitable[object]] = (
        index.upsert([point("good", vector(1)), point("bad", bad)]),
        index.search("ann", bad, EVERYTHING, 1),
    )
    for call in calls:
        with pytest.raises(Fault) as refused:
            await call
        assert refused.value.reason == Reason.ERROR_REASON_INVALID_FIELD
    assert await index.count() == 0


async def test_extreme_vector_lengths_do_not_distort_the_cosine(index: VectorIndex) -> None:
    await index.upsert([point("huge", vector(3e38, 3e38)), point("tiny", vector(1e-44, 0))])
    hits = await index.search("ann", vector(1e-40, 0), EVERYTHING, 5)
    assert [hit.sequence for hit in hits] == [sequence_of("tiny"), sequence_of("huge")]
    assert [hit.score for hit in hits] == pytest.approx([1, 0.5**0.5], abs=1e-6)


numbers = st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=DIMENSION, max_size=DIMENSION).filter(any)
entries = st.tuples(st.sampled_from(["app", "kind"]), st.sampled_from(["", "a"]))
points = st.builds(
    VectorPoint,
    user_id=st.sampled_from(["ann", "bob"]),
    message_id=st.sampled_from([f"m{n}" for n in range(12)]),
    part=st.integers(0, 2),
    sequence=st.just(0),
    ts_us=st.integers(0, 5),
    role=st.sampled_from(Role),
    conversation_id=st.sampled_from(["", "a", "b"]),
    vector=numbers.map(lambda values: vector(*values)),
    metadata_hashes=st.frozensets(entries).map(compute_entry_hashes),
)
moments = st.none() | st.integers(0, 6)
filters = st.builds(
    Filter,
    moments,
    moments,
    role=st.none() | st.sampled_from(Role),
    conversation_id=st.sampled_from(["", "a", "b"]),
    exclude_conversation_ids=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True).map(tuple),
    metadata=st.frozensets(entries, max_size=2).map(tuple),
)


def brute_force(stored: Sequence[VectorPoint], user: str, query: Vector, message_filter: Filter) -> dict[int, float]:
    """Return the matching messages with the cosine of their best part."""
    query_vector = np.frombuffer(query, "<f4").astype(float)
    best: dict[int, float] = {}
    for at in stored:
        has = np.frombuffer(at.vector, "<f4").astype(float)
        cosine = float(has @ query_vector / np.linalg.norm(has) / np.linalg.norm(query_vector))
        if at.user_id == user and matches(at, message_filter):
            best[at.sequence] = max(cosine, best.get(at.sequence, -2.0))
    return best


def matches(at: VectorPoint, message_filter: Filter) -> bool:
    return (
        (message_filter.since_us is None or message_filter.since_us <= at.ts_us)
        and (message_filter.until_us is None or at.ts_us < message_filter.until_us)
        and message_filter.role in (None, at.role)
        and message_filter.conversation_id in ("", at.conversation_id)
        and at.conversation_id not in message_filter.exclude_conversation_ids
        and set(compute_entry_hashes(message_filter.metadata)) <= set(at.metadata_hashes)
    )


@given(
    drawn=st.lists(points, max_size=40),
    searches=st.lists(
        st.tuples(st.sampled_from(["ann", "bob"]), numbers, filters, st.integers(1, 8)), min_size=1, max_size=8
    ),
)
async def test_search_results_equal_brute_force(
    index: VectorIndex, drawn: list[VectorPoint], searches: list[tuple[str, list[float], Filter, int]]
) -> None:
    example = uuid.uuid4().hex  # points of earlier examples belong to other users
    stored = list({(p.user_id, p.message_id, p.part): numbered(p, example) for p in drawn}.values())
    await index.upsert(stored)
    for user, values, message_filter, limit in searches:
        expected = brute_force(stored, user + example, vector(*values), message_filter)
        hits = await index.search(user + example, vector(*values), message_filter, limit)
        assert_best([(hit.sequence, hit.score) for hit in hits], expected, limit)


def numbered(drawn: VectorPoint, example: str) -> VectorPoint:
    """Make user names unique, and give all parts of a message one unique sequence."""
    sequence = sequence_of(f"{drawn.user_id[0]}{drawn.message_id}")
    return replace(drawn, user_id=drawn.user_id + example, sequence=sequence)


def assert_best(hits: list[tuple[int, float]], expected: dict[int, float], limit: int) -> None:
    """Check that the hits are the best ones, including all ties with the last one."""
    assert dict(hits) == {sequence: pytest.approx(expected[sequence], abs=1e-6) for sequence, _ in hits}
    assert len(hits) == len(dict(hits))
    assert len(hits) >= min(limit, len(expected))
    worst = min((score for _, score in hits), default=2.0)
    assert all(score <= worst + 1e-6 for sequence, score in expected.items() if sequence not in dict(hits))
    assert [score for _, score in hits] == sorted((score for _, score in hits), reverse=True)


async def test_points_are_read_by_user_until_a_reset(index: VectorIndex) -> None:
    many = [point(f"m{number}", vector(1, number)) for number in range(1200)]
    await index.upsert([*many, point("m0", vector(2, 1), part=1), point("bob", vector(1, 0), user_id="bob")])
    read = await index.read_points(["ann", "nobody", "bob"], with_vectors=True)
    assert read.counts_by_user == [
        Counter({sequence_of(f"m{number}"): 1 + (number == 0) for number in range(1200)}),
        Counter(),
        Counter({sequence_of("bob"): 1}),
    ]
    assert read.invalid_count == 0
    await index.reset()
    while True:
        with contextlib.suppress(Fault):
            assert await index.count() == 0
            break
    assert (await index.read_points(["ann"], with_vectors=False)).counts_by_user == [Counter()]
