"""Tests for the fence around messages in a prompt."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from nomemory.recall.llm.fence import fence_items

contents = st.text(alphabet=st.sampled_from('<>DAT ab0\n\r\u2028\u0085"\\不')) | st.text()


@given(st.lists(contents, max_size=5))
def test_messages_cannot_close_the_fence(texts: list[str]) -> None:
    fenced = fence_items({"text": text} for text in texts)
    first, *lines, last = fenced.splitlines()
    code = first.removeprefix("<<<DATA ")
    assert last == f"DATA {code}>>>"
    assert fenced.count(code) == 2
    assert [json.loads(line)["text"] for line in lines if line] == texts


def test_fence_is_determined_by_the_messages() -> None:
    assert fence_items([{"text": "one"}]) == fence_items([{"text": "one"}])
    assert len({fence_items([{"text": str(number)}]).splitlines()[0] for number in range(50)}) == 50
