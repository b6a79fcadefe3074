"""Tests for the prompts of a chat model that reads messages."""

from __future__ import annotations

from nomemory.recall.model.step import RecallStep
from nomemory.recall.reading.prompt import build_results_prompt


def test_results_name_the_messages_that_each_call_found() -> None:
    line = {"id": "m9", "said": "Sun 2026-06-14 09:05", "by": "user", "text": "The key is with Ana."}
    steps = [
        RecallStep(1, "", "lexical_search", message_ids=("a", "b", "c"), observation="3 messages"),
        RecallStep(1, "", "semantic_search", observation="refused: top_k"),
    ]
    prompt = build_results_prompt(steps, {"a": "m2", "b": "m9"}, [line], left_out=1, lookups=1)
    assert '{"tool":"lexical_search","result":"3 messages","best":["m2","m9"]}' in prompt
    assert '{"tool":"semantic_search","result":"refused: top_k"}' in prompt
    assert "New messages, oldest first (1 more did not fit):" in prompt
    assert "The key is with Ana." in prompt


def test_search_without_new_results_is_stated() -> None:
    step = RecallStep(1, "", "lexical_search", message_ids=("a",), observation="1 messages")
    prompt = build_results_prompt([step], {"a": "m2"}, [], left_out=0, lookups=0)
    assert '"best":["m2"]' in prompt
    assert "They brought nothing that was not shown." in prompt
