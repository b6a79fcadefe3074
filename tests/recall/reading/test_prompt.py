"""Tests for the prompts of a chat model that reads messages."""

from __future__ import annotations

from nomemory.recall.model.step import RecallStep
from nomemory.recall.reading.prompt import build_results_prompt


def test_results_of_a_search_state_how_many_were_shown_before() -> None:
    line = {"id": "m9", "said": "Sun 2026-06-14 09:05", "by": "user", "text": "The key is with Ana."}
    prompt = build_results_prompt([RecallStep(1, "", "lexical_search", hit_count=4)], [line], 3, 1)
    assert "New messages, oldest first (3 others were shown before):" in prompt
    assert '"found":4' in prompt
    assert "The key is with Ana." in prompt


def test_search_without_new_results_is_stated() -> None:
    prompt = build_results_prompt([RecallStep(1, "", "lexical_search", hit_count=4)], [], 4, 0)
    assert "They brought nothing that was not shown." in prompt
