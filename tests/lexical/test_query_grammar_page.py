"""Every example of docs/query-grammar.md does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lexical.engine import Engine
from lexical.shelf import Shelf, shelved

PAGE = Path(__file__).parents[2] / "docs" / "query-grammar.md"
MESSAGES_ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)
EXAMPLE_ROW = re.compile(r"^\| `(.+)` \| ([\d, ]*)\|.*\|$", re.MULTILINE)

EXAMPLES = PAGE.read_text().split("## Examples")[1]
MESSAGES = {int(number): text for number, text in MESSAGES_ROW.findall(EXAMPLES)}
CASES = [(text, [int(number) for number in re.findall(r"\d+", found)]) for text, found in EXAMPLE_ROW.findall(EXAMPLES)]


@pytest.fixture(scope="module")
def shelf(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    with shelved(engine, tmp_path_factory.mktemp("lexical"), MESSAGES.values()) as filled:
        yield filled


def test_the_page_has_examples() -> None:
    rows = [line for line in EXAMPLES.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(MESSAGES) + len(CASES), "two headings, and every other row is understood"
    assert list(MESSAGES) == list(range(1, len(MESSAGES) + 1))
    assert len(CASES) > 20


@pytest.mark.parametrize(("text", "found"), CASES)
def test_example(shelf: Shelf, text: str, found: list[int]) -> None:
    assert shelf.find("u", text) == [MESSAGES[number] for number in found]
