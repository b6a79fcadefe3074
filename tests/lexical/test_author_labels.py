"""Tests for the detection of names that label a large part of the messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest
from lexical.engine import Engine
from lexical.shelf import Shelf, ShelfLog, message

from nomemory.server.search.hybrid.author_labels import AuthorLabelFinder
from nomemory.server.store.protocol import LogReader


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with closing(Shelf(engine, tmp_path_factory.mktemp("lexical"))) as opened:
        yield opened


def frequent_names(shelf: Shelf, user: str, question: str, until_us: int | None = None) -> tuple[str, ...]:
    labels = AuthorLabelFinder(shelf.reader_index, cast("LogReader", ShelfLog(shelf)), max_sequences=4096)
    total = sum(each.user_id == user and each.ts_us < (until_us or 1 << 62) for each in shelf.messages.values())
    return shelf.now(labels.find_frequent_names(user, question, until_us, total))


def test_name_that_labels_many_messages_is_frequent(shelf: Shelf) -> None:
    shelf.put_texts("labeled", *[f"陆明强：今天{n}点见" for n in range(5)], *["王海 ：好"] * 5, *["买了菜"] * 70)
    assert frequent_names(shelf, "labeled", "陆明强在三月买了什么？") == ("陆明强",)
    assert frequent_names(shelf, "labeled", "王海和陆明强约了几点？") == ("王海", "陆明强")
    assert frequent_names(shelf, "labeled", "今天买了什么？") == ()


def test_english_names_are_recognized_as_labels(shelf: Shelf) -> None:
    shelf.put_texts("english", *[f"Marta: see you at {n}" for n in range(4)], *["bought bread"] * 40)
    assert frequent_names(shelf, "english", "What did Marta buy?") == ("Marta",)


def test_a_rare_name_is_not_frequent(shelf: Shelf) -> None:
    shelf.put_texts("rare", *["林峰：好"] * 3, *["买了菜"] * 97)
    assert frequent_names(shelf, "rare", "林峰买了什么？") == ()


def test_frequent_word_that_is_never_a_label_is_not_a_name(shelf: Shelf) -> None:
    shelf.put_texts("notes", *["今日要点，核心目标：多休息"] * 9, *["记录：跑步"] * 2, *["买了菜"] * 9)
    assert frequent_names(shelf, "notes", "核心目标和记录是什么？") == ()


def test_later_messages_and_those_of_other_users_do_not_make_a_name_frequent(shelf: Shelf) -> None:
    shelf.put(*(message("dated", "买了菜", ts) for ts in range(20)))
    shelf.put(*(message("dated", "陆明强：好", ts) for ts in range(20, 30)))
    assert frequent_names(shelf, "dated", "陆明强买了什么？", until_us=20) == ()
    assert frequent_names(shelf, "dated", "陆明强买了什么？", until_us=30) == ("陆明强",)
    shelf.put_texts("other", *["买了菜"] * 9)
    assert frequent_names(shelf, "other", "陆明强买了什么？") == ()
