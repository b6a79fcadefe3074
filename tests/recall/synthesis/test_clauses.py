"""Tests for the offsets of sentences and clauses, and for quotation marks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nomemory.text.sentences import HIDDEN, mask_quotations, split_sentences

TEXT = st.text(st.sampled_from("我吃辣ab1 ,，。.?？!：:;“”\"「」\n…—–😀\ud83d'（）"), max_size=60) | st.text(
    max_size=80
)


def split(text: str) -> list[list[str]]:
    return [[clause.text for clause in sentence.clauses] for sentence in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("小炒肉就算了，我从小不吃辣。", [["小炒肉就算了", "我从小不吃辣"]]),
        ("拔完了！喝粥能配什么？", [["拔完了"], ["喝粥能配什么"]]),
        ("I ran 7.3 k, slowly. It cost 1,000.", [["I ran 7.3 k", "slowly"], ["It cost 1,000"]]),
        ("Dr. Hale said no. Start is 9:30, wave C", [["Dr. Hale said no"], ["Start is 9:30", "wave C"]]),
        ("他问“要得不？”，我说要得。", [["他问“要得不？”", "我说要得"]]),
        ("Never: a late, an early", [["Never", "a late", "an early"]]),
        ("第一行\n第二行", [["第一行"], ["第二行"]]),
        ("……", []),
        ("", []),
    ],
)
def test_text_is_split_into_sentences_and_clauses(text: str, clauses: list[list[str]]) -> None:
    assert split(text) == clauses


def test_quoted_text_is_masked_at_equal_length() -> None:
    text = "她说“我不吃辣”，真的"
    assert mask_quotations(text) == f"她说“{HIDDEN * 4}”，真的"


@given(TEXT)
def test_clause_offsets_refer_to_the_text(text: str) -> None:
    end = 0
    for sentence in split_sentences(text):
        for clause in sentence.clauses:
            assert end <= clause.start < clause.end <= len(text)
            assert text[clause.start : clause.end] == clause.text
            assert len(clause.masked_text) == len(clause.text)
            end = clause.end


@given(TEXT)
def test_clauses_keep_every_alphanumeric_character(text: str) -> None:
    kept = "".join(clause.text for sentence in split_sentences(text) for clause in sentence.clauses)
    assert [character for character in kept if character.isalnum()] == [
        character for character in text if character.isalnum()
    ]
