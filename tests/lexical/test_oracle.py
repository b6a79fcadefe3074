"""Tests that searches equal brute force: matches, scores, order and pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical.claims import Claim, claims
from lexical.engine import Engine
from lexical.oracle import FILTERS, at, expected, let_through, listed, random_messages
from lexical.shelf import Shelf, message, query, shelved

from nomemory.server.message_filter import EVERYTHING, Filter
from nomemory.server.search.lexical import window
from nomemory.server.search.lexical.postgres import reader as postgres_reader
from nomemory.server.search.lexical.protocol import LexicalHit, Posting, RankPosition
from nomemory.server.search.lexical.tantivy import reader as tantivy_reader
from nomemory.server.search.lexical.window import select_window_terms


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    filled = Shelf(engine, tmp_path_factory.mktemp("lexical"))
    messages = random_messages(150)
    for start in range(0, 150, 50):
        filled.put(*messages[start : start + 50])  # several segments
    filled.remove(*range(40, 60))
    yield filled
    filled.close()


@given(claims, st.just(EVERYTHING) | FILTERS)
def test_search_returns_matches_ordered_by_score_and_time(shelf: Shelf, claim: Claim, message_filter: Filter) -> None:
    assert listed(shelf.hits("u", query(claim.text), message_filter)) == expected(shelf, claim, message_filter)


@given(claims, st.lists(st.integers(1, 7), min_size=1))
def test_pages_return_every_match_once_in_order(shelf: Shelf, claim: Claim, limits: list[int]) -> None:
    parsed_query = query(claim.text)
    ranking = shelf.freeze("u", parsed_query)
    walked: list[LexicalHit] = []
    delivered: set[LexicalHit] = set()
    while True:
        after = at(walked[-1]) if walked else None
        limit = limits[len(walked) % len(limits)] + len(delivered)
        page = shelf.page("u", parsed_query, ranking, start=after, limit=limit)
        assert delivered <= set(page), "hits at the position are repeated"
        fresh = [hit for hit in page if hit not in delivered]
        if not fresh:
            break
        walked += fresh
        assert len(walked) == len(set(walked)), "no hit is repeated"
        delivered = {hit for hit in fresh if at(hit) == at(fresh[-1])}
    assert listed(walked) == expected(shelf, claim, EVERYTHING)


@given(claims, st.integers(1, 30))
def test_page_is_full_and_splits_no_tie(shelf: Shelf, claim: Claim, limit: int) -> None:
    parsed_query = query(claim.text)
    page = listed(shelf.page("u", parsed_query, shelf.freeze("u", parsed_query), limit=limit))
    everything = expected(shelf, claim, EVERYTHING)
    assert page == [hit for hit in everything if hit[:2] >= everything[:limit][-1][:2]] if everything else page == []


def test_pages_beyond_the_first_index_read_continue_in_order(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelf = Shelf(engine, tmp_path_factory.mktemp("lexical"))
    texts = ["火锅", "火锅 辣椒", "辣椒", "cat 辣椒"]
    shelf.put(*(message("u", texts[n % 4], n // 3) for n in range(3000)))
    parsed_query = query("火锅 辣椒 cat")
    everything = listed(shelf.hits("u", parsed_query))
    assert len(everything) == 3000
    ranking, after, walked = shelf.freeze("u", parsed_query), None, set[int]()
    while page := [
        hit for hit in shelf.page("u", parsed_query, ranking, start=after, limit=97) if hit.sequence not in walked
    ]:
        assert listed(page) == everything[len(walked) : len(walked) + len(page)]
        walked |= {hit.sequence for hit in page}
        after = at(page[-1])
    assert len(walked) == 3000
    shelf.close()


@given(claims, st.just(EVERYTHING) | FILTERS, st.integers(2, 60))
def test_ranking_window_prefers_high_weight_terms_and_new_messages(
    shelf: Shelf, claim: Claim, message_filter: Filter, size: int
) -> None:
    parsed_query, everything = query(claim.text), expected(shelf, claim, message_filter)
    with pytest.MonkeyPatch.context() as patch:
        for module in (window, tantivy_reader, postgres_reader):
            patch.setattr(module, "WINDOW", size)
        with shelf.another_reader() as opened:  # readers cache ranking windows
            ranking = opened.freeze("u", parsed_query, message_filter)
    hits = listed(shelf.page("u", parsed_query, ranking, message_filter, None, 10_000))
    if ranking.window is None:
        assert hits == everything
        return
    since_us, heaviest = (
        ranking.window.since_us,
        select_window_terms(parsed_query, ranking.weights, ranking.window.term_count),
    )
    newest = [ts for _, ts, _ in everything if ts >= since_us]
    assert hits == [
        hit
        for hit in everything
        if hit[1] >= since_us or any("".join(leaf.tokens) in shelf.messages[hit[2]].content for leaf in heaviest)
    ]
    assert len(newest) <= len(hits) <= len(everything)
    mine = [each for each in shelf.messages.values() if each.user_id == "u" and let_through(message_filter, each)]
    half = size // 2
    assert sum(each.ts_us > since_us for each in mine) < half <= sum(each.ts_us >= since_us for each in mine)


@pytest.mark.parametrize("text", ["面条", "火锅", "火锅 鲨鱼", "火锅 辣椒", "火锅 AND 辣椒", "-鲨鱼"])
def test_pages_over_thousands_of_matches_are_complete(busy: Shelf, text: str) -> None:
    parsed_query = query(text)
    everything = listed(busy.hits("u", parsed_query))
    ranking, after, walked = busy.freeze("u", parsed_query), None, 0
    while walked < min(len(everything), 400):
        ahead = set(everything[walked:])
        page = [hit for hit in listed(busy.page("u", parsed_query, ranking, start=after, limit=50)) if hit in ahead]
        assert page == everything[walked : walked + len(page)]
        assert len(page) >= min(40, len(everything) - walked)
        walked += len(page)
        after = RankPosition(*page[-1][:2])


@pytest.fixture(scope="module")
def busy(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """An index whose messages are mostly within an hour, with one rare word."""
    chance = random.Random(4)  # noqa: S311 - the same texts each time
    with shelved(engine, tmp_path_factory.mktemp("lexical")) as filled:
        texts = ["火锅 辣椒", "火锅", "面条", "面条 火锅？"]
        for count, latest in ((5_000, 20_000), (120, 20_000_000)):
            times = (chance.randint(0, latest) for _ in range(count))
            filled.put(*(message("u", chance.choice(texts) + " 鲨鱼" * (ts % 30 == 3), ts) for ts in times))
        yield filled


@pytest.mark.parametrize("inline", [0, 10**6])
def test_cached_statistics_of_a_user_equal_those_of_a_fresh_reader(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    """Compare with a new reader after changes of this user and of others."""
    monkeypatch.setattr(tantivy_reader, "_INLINE_POSTINGS", inline)
    chance = random.Random(5)  # noqa: S311 - the same changes each time
    parsed_query, terms = query("火锅 辣椒 cat"), ["火锅", "辣椒", "cat"]
    with shelved(engine, tmp_path, ["火锅"] * 3) as shelf:
        for _ in range(12):
            if chance.random() < 0.4 and len(shelf.messages) > 1:
                shelf.remove(chance.choice([max(shelf.messages), *shelf.messages]))
            else:
                shelf.put(
                    message(chance.choice("uuv"), chance.choice(["火锅", "火锅 辣椒", "cat"]), len(shelf.messages))
                )
            with shelf.another_reader() as opened:
                for user, message_filter in product("uv", (EVERYTHING, Filter(since_us=2))):
                    assert shelf.weigh(user, parsed_query) == opened.weigh(user, parsed_query)
                    kept, new = (item.read_postings(user, terms, message_filter, 5) for item in (shelf, opened))
                    assert list(map(posting_fields, kept)) == list(map(posting_fields, new))


def posting_fields(posting: Posting) -> tuple[int, list[int]]:
    return posting.count, sorted(posting.sequences.tolist())


PROSE = "我从小就不吃辣椒，吃辣的我都不吃。火锅可以不辣吗？不辣的火锅我吃，辣的不吃！妈妈说：“不能吃辣就别吃辣。”"


@given(st.data())
def test_a_phrase_is_found_wherever_it_is_a_substring(phrases: Shelf, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(PROSE) - 1))
    phrase = PROSE[start : start + data.draw(st.integers(1, 9))].strip("“”")
    if phrase:
        matching = {hit.sequence for hit in phrases.hits("u", query(f"「{phrase}」"))}
        assert matching == {number for number, each in phrases.messages.items() if phrase in each.content}


@pytest.fixture(scope="module")
def phrases(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    chance = random.Random(2)  # noqa: S311 - the same texts each time
    filled = Shelf(engine, tmp_path_factory.mktemp("lexical"))
    cuts = [chance.randrange(len(PROSE)) for _ in range(60)]
    filled.put_texts("u", *(PROSE[cut : cut + chance.randint(1, 25)] for cut in cuts))
    filled.put_texts("u", *("".join(chance.choices("不吃辣的我", k=12)) for _ in range(100)))
    yield filled
    filled.close()


@pytest.mark.parametrize(
    "text",
    [
        "火锅 辣椒",
        "cat 火锅 辣椒 dog",
        "火锅 OR 辣椒 NOT cat",
        "火锅 AND (辣椒 OR cat)",
        "dog NOT cat OR 火锅",
        "a b c d e f g h i 火锅",
    ],
)
def test_ties_larger_than_one_index_read_are_ordered_by_time(crowd: Shelf, text: str) -> None:
    parsed_query = query(text)
    everything = listed(crowd.hits("u", parsed_query))
    ranking, after, walked = crowd.freeze("u", parsed_query), None, set[int]()
    while page := [
        hit for hit in crowd.page("u", parsed_query, ranking, start=after, limit=61) if hit.sequence not in walked
    ]:
        assert listed(page) == everything[len(walked) : len(walked) + len(page)]
        walked |= {hit.sequence for hit in page}
        after = at(page[-1])
    assert len(walked) == len(everything)


@pytest.fixture(scope="module")
def crowd(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    chance = random.Random(3)  # noqa: S311 - the same texts each time
    filled = Shelf(engine, tmp_path_factory.mktemp("lexical"))
    texts = ["火锅 辣椒", "火锅 辣椒 cat", "辣椒 dog", "火锅", "面条", "cat", "dog"]
    for _ in range(3):
        filled.put(
            *(
                message("u", chance.choice(texts), chance.randint(0, 400), name=chance.choice(["", "Cat"]))
                for _ in range(700)
            )
        )
    filled.remove(*chance.sample(sorted(filled.messages), 100))
    yield filled
    filled.close()


def test_a_speaker_match_is_not_dropped_as_a_tie(engine: Engine, tmp_path: Path) -> None:
    texts = ["cat", "dog", "火锅", "面条"]
    with shelved(engine, tmp_path) as shelf:
        shelf.put(*(message("u", texts[n % 4], n // 3, name="Cat" if n % 16 < 4 else "") for n in range(4800)))
        parsed_query = query("cat dog 火锅")
        ranking = shelf.freeze("u", parsed_query)
        assert ranking.weights[-1] == max(ranking.weights), "the weight equals that of a term"
        after, walked = None, set[int]()
        while page := [
            h for h in shelf.page("u", parsed_query, ranking, start=after, limit=200) if h.sequence not in walked
        ]:
            walked |= {hit.sequence for hit in page}
            after = at(page[-1])
        assert walked == {number for number, each in shelf.messages.items() if each.content != "面条"}
