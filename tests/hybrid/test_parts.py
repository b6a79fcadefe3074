"""Tests for the components of the ranking without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.server.message import LoggedMessage, Message, Role
from nomemory.server.message_filter import Filter
from nomemory.server.search.hybrid.candidate_messages import Timeline, build_timeline
from nomemory.server.search.hybrid.candidate_pool import CandidatePool
from nomemory.server.search.hybrid.message_features import FeatureCache, extract_features
from nomemory.server.search.hybrid.query_analysis import parse_question
from nomemory.server.search.hybrid.ranking import MatchScores, Ranking, add_context, compute_bonus_scores, rank_matches
from nomemory.server.search.hybrid.relevance_feedback import compute_feedback_scores, select_feedback
from nomemory.server.search.hybrid.semantic_hits import SemanticHits
from nomemory.server.search.hybrid.semantic_scores import compute_semantic_scores
from nomemory.server.search.hybrid.term_occurrences import TermOccurrences
from nomemory.server.search.hybrid.term_scores import compute_term_scores
from nomemory.server.search.hybrid.timeline_cache import TimelineCache, TimelineKey
from nomemory.server.search.hybrid.weights import STEPS, RankingWeights
from nomemory.server.search.semantic.protocol import VectorHit
from nomemory.server.wire import encode
from nomemory.text.question_analysis import QuestionAnalysis

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE_US = 60_000_000
NAMES = ("", "Ann", "Bob")


def logged(sequence: int, content: str, ts_us: int = 0, name: str = "", conversation: str = "") -> LoggedMessage:
    role = Role.USER if name != "Bob" else Role.ASSISTANT
    message = Message("u", f"m{sequence:03}", ts_us, role, content, name, conversation)
    return LoggedMessage("u", message.message_id, ts_us, sequence, encode(message))


messages = st.lists(
    st.tuples(
        st.sampled_from(["tea?", "I met Zoe in Rome", "好吗", "“a title”", "ok", "5"]),
        st.integers(0, 20).map(lambda n: n * 10 * MINUTE_US),
        st.sampled_from(NAMES),
        st.sampled_from(["", "c", "d"]),
    ),
    min_size=1,
    max_size=30,
).map(lambda some: [logged(n + 1, *item) for n, item in enumerate(some)])
weights = st.builds(
    RankingWeights().disable_steps, st.sets(st.sampled_from([step for step in STEPS if step != "neighbors"]))
)
floats = st.floats(0, 1)


def arrays(draw: st.DrawFn, count: int) -> np.ndarray:
    return np.array(draw(st.lists(floats, min_size=count, max_size=count)))


@st.composite
def ranked(draw: st.DrawFn) -> tuple[Timeline, Ranking, RankingWeights]:
    line, weighing = build_timeline(draw(messages)), draw(weights)
    meaning = arrays(draw, len(line)) if draw(st.booleans()) else None
    base = rank_matches(MatchScores(meaning, arrays(draw, len(line))), weighing)
    question = draw(st.sampled_from(["What did Ann do in 1970?", "Who did I meet?", "茶？"]))
    question_analysis = parse_question(QuestionAnalysis(question, NOW), line.speakers)
    return (
        line,
        add_context(line, base.add_components(**compute_bonus_scores(line, question_analysis, weighing)), weighing),
        weighing,
    )


@given(ranked())
def test_scores_are_finite_and_have_a_maximum_of_one(made: tuple[Timeline, Ranking, RankingWeights]) -> None:
    _, ranking, _ = made
    assert np.isfinite(ranking.scores).all()
    assert ranking.scores == pytest.approx(sum(ranking.components.values()))
    best = ranking.scores.max()
    assert best == pytest.approx(1) or best <= 0


@given(ranked())
def test_feedback_scores_are_between_zero_and_one(made: tuple[Timeline, Ranking, RankingWeights]) -> None:
    line, ranking, _ = made
    followed = select_feedback(line, ranking.scores, {"ann"})
    assert sum(leader.weight for leader in followed) <= 1 + 1e-9
    terms = {term for leader in followed for term in leader.terms}
    indexes_by_term = {
        term: np.array([n for n in range(len(line)) if term in line.get_message_terms(n)]) for term in terms
    }
    occurrences = {term: TermOccurrences(len(at), at) for term, at in indexes_by_term.items()}
    worth = compute_feedback_scores(line, followed, occurrences, len(line))
    assert ((worth >= 0) & (worth <= 1)).all()


@given(messages, st.randoms(use_true_random=False))
def test_timeline_does_not_depend_on_the_input_order(some: list[LoggedMessage], rng: object) -> None:
    mixed = list(some)
    rng.shuffle(mixed)  # type: ignore[attr-defined]  # a Random
    first, other = build_timeline(some), build_timeline(mixed)
    assert first.logged == other.logged
    assert (first.previous_indexes == other.previous_indexes).all()
    assert [first.conversation_order.tolist(), first.conversation_sizes.tolist()] == [
        other.conversation_order.tolist(),
        other.conversation_sizes.tolist(),
    ]


@given(messages)
def test_a_message_follows_the_previous_one_in_its_conversation_within_the_time_limit(
    some: list[LoggedMessage],
) -> None:
    """Compare with the definition: the previous message of the conversation within the time limit."""
    line = build_timeline(some)
    for index, before in enumerate(line.previous_indexes.tolist()):
        here = line.features[index]
        earlier = [n for n in range(index) if line.features[n].conversation_id == here.conversation_id]
        near = [n for n in earlier[-1:] if line.logged[index].ts_us - line.logged[n].ts_us <= 30 * MINUTE_US]
        assert before == (near[0] if near else -1)


@given(ranked())
def test_context_score_is_the_mean_of_a_nine_message_window(made: tuple[Timeline, Ranking, RankingWeights]) -> None:
    line, _, _ = made
    scores = np.linspace(0, 1, len(line))
    talk = add_context(line, Ranking(scores, {"words": scores}), RankingWeights())
    scale = talk.components["words"][-1] / scores[-1] if scores[-1] else 1.0
    for conversation in np.split(line.conversation_order, np.cumsum(line.conversation_sizes)[:-1]):
        for at, index in enumerate(conversation):
            window = scores[conversation[max(at - 4, 0) : at + 5]]
            assert talk.components["around"][index] == pytest.approx(0.3 * window.mean() * scale)
            best = np.sort(scores[conversation])[-2:].mean() if 1 < len(conversation) < len(line) / 2 else 0
            assert talk.components["conversation"][index] == pytest.approx(0.2 * best * scale)


@given(messages, st.integers(0, 21), st.sampled_from([None, Role.USER, Role.ASSISTANT]), st.sampled_from(["", "c"]))
def test_timeline_filter_mask_equals_the_filter(
    some: list[LoggedMessage], at: int, role: Role | None, conversation: str
) -> None:
    message_filter = Filter(at * MINUTE_US, 15 * 10 * MINUTE_US, role, conversation)
    line = build_timeline(some)
    for logged_one, item, admitted in zip(
        line.logged, line.features, line.build_filter_mask(message_filter).tolist(), strict=True
    ):
        message = Message("u", "m", logged_one.ts_us, Role(item.role), "x", item.name, item.conversation_id)
        assert admitted == message_filter.admits(message)
    earlier = line.truncate(at * 10 * MINUTE_US)
    assert earlier.logged == [item for item in line.logged if item.ts_us < at * 10 * MINUTE_US]
    assert earlier.speakers == build_timeline(earlier.logged).speakers


@given(messages, st.integers(0, 21))
def test_messages_after_the_query_time_are_not_candidates(some: list[LoggedMessage], at: int) -> None:
    until_us = at * 10 * MINUTE_US
    pool = CandidatePool(build_timeline(some), len(some), Filter(until_us=until_us))
    remaining = pool.truncate(until_us).timeline.logged
    assert remaining == [message for message in pool.timeline.logged if message.ts_us < until_us]


@given(messages, st.sets(st.integers(1, 40)))
def test_existing_versions_are_located_by_sequence(some: list[LoggedMessage], sequences: set[int]) -> None:
    line = build_timeline(some)
    located, standing = line.locate_versions(np.array(sorted(sequences), dtype=np.int64))
    for sequence, index, stands in zip(sorted(sequences), located.tolist(), standing.tolist(), strict=True):
        assert stands == (sequence <= len(some))
        assert not stands or line.logged[index].sequence == sequence
    assert build_timeline([]).locate_versions(np.array([3]))[1].tolist() == [False]


def index_of(line: Timeline, sequence: int) -> int:
    return [message.sequence for message in line.logged].index(sequence)


def test_term_scores_include_neighbors_and_sender_names() -> None:
    some = [logged(n + 1, "x" * 20, n * MINUTE_US, "Ann" if n == 8 else "Bob", "c") for n in range(10)]
    line = build_timeline(some)
    occurrences = {"lisbon": TermOccurrences(1, np.array([4])), "ann": TermOccurrences(0, np.array([], dtype=np.int64))}
    scored = compute_term_scores(line, occurrences, 10, neighbor_weight=0.3)
    assert np.flatnonzero(scored.scores).tolist() == [3, 4, 5, 8]
    assert scored.scores[4] > scored.scores[3] == scored.scores[5] > 0
    assert np.flatnonzero(scored.coverage).tolist() == [4, 8]
    assert compute_term_scores(line, {}, 10, neighbor_weight=0.3).has_terms is False
    alone = compute_term_scores(line, occurrences, 10, neighbor_weight=0.0)
    assert np.flatnonzero(alone.scores).tolist() == [4, 8]


@given(messages, st.dictionaries(st.sampled_from("abcdef"), st.sets(st.integers(0, 29)), max_size=6), st.integers(0, 9))
def test_term_scores_are_finite_and_coverage_is_at_most_one(
    some: list[LoggedMessage], indexes_by_term: dict[str, set[int]], more: int
) -> None:
    line = build_timeline(some)
    valid_indexes = {
        term: np.array(sorted(n for n in at if n < len(line)), dtype=np.int64) for term, at in indexes_by_term.items()
    }
    total = len(line) + more
    scored = compute_term_scores(
        line,
        {term: TermOccurrences(len(at) + more, at) for term, at in valid_indexes.items()},
        total,
        neighbor_weight=0.3,
    )
    assert np.isfinite(scored.scores).all()
    assert (scored.scores >= 0).all()
    assert ((scored.coverage >= 0) & (scored.coverage <= 1 + 1e-9)).all()


def hits(*scores: float) -> list[VectorHit]:
    return [VectorHit(score, 0, n + 1) for n, score in enumerate(scores)]


def test_semantic_scores_are_normalized_and_ignore_deleted_versions() -> None:
    line = build_timeline([logged(n, "x", n) for n in range(1, 6)])
    complete = compute_semantic_scores(line, SemanticHits(hits(0.9, 0.8, 0.7, 0.6, 0.5), is_complete=True), total=5)
    assert complete is not None
    assert complete.normalized_cosines.tolist() == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    cut = compute_semantic_scores(line, SemanticHits(hits(0.9, 0.8), is_complete=False), total=5)
    assert cut is not None
    assert cut.is_hit.tolist() == [1, 1, 0, 0, 0]
    assert (
        1
        == cut.normalized_cosines[0]
        > cut.normalized_cosines[1]
        > cut.normalized_cosines[2]
        == cut.normalized_cosines[4]
        > 0
    )
    assert cut.cosines.tolist() == [0.9, 0.8, 0, 0, 0]
    gone = [VectorHit(0.99, 0, 77), *hits(0.9, 0.8, 0.7, 0.6, 0.5), VectorHit(0.1, 0, 78)]
    with_gone = compute_semantic_scores(line, SemanticHits(gone, is_complete=True), total=5)
    assert with_gone is not None
    assert with_gone.normalized_cosines.tolist() == complete.normalized_cosines.tolist()
    assert compute_semantic_scores(line, SemanticHits([VectorHit(0.9, 0, 77)], is_complete=True), total=5) is None
    assert compute_semantic_scores(line, SemanticHits([], is_complete=True), total=5) is None
    equal = compute_semantic_scores(line, SemanticHits(hits(0.5, 0.5), is_complete=True), total=5)
    assert equal is not None
    assert equal.normalized_cosines.tolist() == [1, 1, 0, 0, 0]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.integers(0, 9))
def test_z_scores_are_computed_over_all_messages_of_the_user(scores: list[float], more: int) -> None:
    scores.sort(reverse=True)
    line = build_timeline([logged(n, "x", n) for n in range(1, len(scores) + 1)])
    whole = compute_semantic_scores(line, SemanticHits(hits(*scores), is_complete=True), total=len(scores))
    assert whole is not None
    assert whole.mean == pytest.approx(np.mean(scores))
    assert whole.deviation == pytest.approx(np.std(scores), abs=1e-6)
    cut = compute_semantic_scores(line, SemanticHits(hits(*scores), is_complete=False), total=len(scores) + more)
    assert cut is not None
    assert cut.mean <= whole.mean + 1e-9
    for meaning in (whole, cut):
        assert np.isfinite(meaning.z_scores).all()
        assert (np.diff(meaning.z_scores[: len(scores)]) <= 0).all()


def test_tied_messages_are_selected_for_feedback_together() -> None:
    line = build_timeline([logged(n, f"word{n}", n) for n in range(1, 31)])
    assert select_feedback(line, np.ones(30), set()) == []
    scores = np.zeros(30)
    scores[[3, 7]] = 1.0
    assert [leader.index for leader in select_feedback(line, scores, set())] == [3, 7]
    few = build_timeline([logged(n, f"word{n}", n) for n in range(1, 4)])
    assert len(select_feedback(few, np.ones(3), {"word1"})) == 3


@pytest.mark.parametrize(
    ("text", "persons"),
    [
        ("What did Melanie do?", {"Melanie"}),
        ("Is mel at home?", {"Melanie"}),
        ("What about it, an apple also?", set()),
        ("What does A think?", {"A"}),
        ("A和小明说了什么？", {"A", "小明"}),
        ("小明喜欢什么？", {"小明"}),
        ("What did (x+y)* say?", {"(x+y)*"}),
    ],
)
def test_persons_named_in_the_question_are_recognized(text: str, persons: set[str]) -> None:
    assert parse_question(QuestionAnalysis(text, NOW), ["A", "Melanie", "小明", "(x+y)*", " "]).persons == persons


@pytest.mark.parametrize(
    ("text", "of_assistant"),
    [
        ("What did you recommend?", True),
        ("You said something about tents", True),
        ("你之前推荐过什么？", True),
        ("你给我推荐的餐厅是哪家？", True),
        ("What did Ann tell you?", False),
        ("Do you know what I ate?", False),
        ("你能告诉我我说过什么吗？", False),
        ("你知道我喜欢什么吗？", False),
        ("我跟你说过我的生日吗？", False),
    ],
)
def test_questions_about_the_assistant_or_the_user_are_distinguished(text: str, of_assistant: bool) -> None:  # noqa: FBT001 - what is expected
    analysis = parse_question(QuestionAnalysis(text, NOW), [])
    assert analysis.asks_about_assistant == of_assistant
    assert not (analysis.asks_about_assistant and analysis.asks_about_user)


def test_long_text_is_limited_to_the_maximum_number_of_terms() -> None:
    analysis = parse_question(QuestionAnalysis("".join(chr(0x4E00 + n) for n in range(1900)) + "？", NOW), [])
    assert sum(len(sentence.terms) for sentence in analysis.sentences) <= 4 * 128


async def test_cached_timelines_are_the_latest_and_limited() -> None:
    kept = TimelineCache(max_bytes=50_000)
    made: list[TimelineKey] = []

    async def make(key: TimelineKey, size: int) -> Timeline | None:
        async def of(key: TimelineKey, previous: Timeline | None) -> Timeline:
            made.append(key)
            assert previous is None or previous.logged[0].user_id == "u"
            return build_timeline([logged(key.sequence, "x" * size)], previous)

        return await kept.get(key, of)

    async def nothing(_key: TimelineKey, _previous: Timeline | None) -> None:
        """Return no messages."""

    async def fail(_key: TimelineKey, _previous: Timeline | None) -> None:
        pytest.fail("it is known that there is none")

    first = await make(TimelineKey("a", 1, 100, None), 100)
    assert await make(TimelineKey("a", 1, 100, None), 100) is first
    assert len(made) == 1
    newer = await make(TimelineKey("a", 2, 100, None), 100)
    assert newer is not first
    assert await make(TimelineKey("a", 1, 100, None), 100) is not first
    for n in range(100):
        await make(TimelineKey(f"user{n}", 1, 4_000, None), 4_000)
        assert kept.memory_bytes <= 50_000
    assert await kept.get(TimelineKey("none", 1, 0, None), nothing) is None
    assert await kept.get(TimelineKey("none", 1, 0, None), fail) is None


@given(messages)
def test_features_of_known_messages_are_reused(some: list[LoggedMessage]) -> None:
    previous = build_timeline(some)
    again = build_timeline([*some[1:], logged(99, "new")], previous)
    assert len(again) == len(some)
    before = {item.sequence: features for item, features in zip(previous.logged, previous.features, strict=True)}
    for item, features in zip(again.logged, again.features, strict=True):
        assert features == extract_features(item)
        assert item.sequence == 99 or features is before[item.sequence]


def test_feature_cache_size_is_limited() -> None:
    some = [logged(n, f"{n} Ann said “so” in 19{n}") for n in range(400)]
    kept, room = FeatureCache(60_000), 60_000
    for at in range(0, 400, 7):
        read = kept.read_features(some[at : at + 20])
        assert read == [extract_features(item) for item in some[at : at + 20]]
        assert kept.memory_bytes <= room
    again = kept.read_features(some[-4:])
    assert all(item is other for item, other in zip(again, kept.read_features(some[-4:]), strict=True))


@pytest.mark.parametrize(
    ("content", "named", "little"),
    [
        ("We sing in Porto on Friday, can you plan the journey with me?", False, False),
        ("can you plan the journey with me", False, True),
        ("We sing in Porto on Friday, can you plan the journey with me?", True, True),
        ("We sing in Porto on Friday.", True, False),
    ],
)
def test_statement_before_a_question_counts_as_an_assertion(content: str, *, named: bool, little: bool) -> None:
    line = build_timeline([logged(1, content, name="Ann" if named else "")])
    assert line.lacks_assertion.tolist() == [little]
