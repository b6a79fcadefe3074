"""Tests for the import examples in docs/importing.md."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from cli.command_line import Run
from documentation.blocks import blocks

from nomemory.server.runtime.settings import Settings

if TYPE_CHECKING:
    from running_server import Server

PAGE = "docs/importing.md"
SENT = {"jsonl": 2, "openai": 2, "chatgpt": 2, "claude": 1, "whatsapp": 2, "zep": 1, "mem0": 1}


def examples() -> list[tuple[str, list[str]]]:
    """Return each example with the words of the following command."""
    ours = [block for block in blocks() if block.page == PAGE]
    pairs = [(item, under) for item, under in pairwise(ours) if item.language != "sh"]
    assert all(under.language == "sh" for _, under in pairs)
    return [(item.text, shlex.split(under.text.splitlines()[0])[1:]) for item, under in pairs]


def test_every_documented_example_is_imported(vector_server: Server, run: Run) -> None:
    seen: Counter[str] = Counter()
    for text, words in examples():
        Path(words[1]).write_text(text, encoding="utf-8")
        result = run(*words, "--target", vector_server.target, "--json")
        assert result.exit_code == 0, result.output + str(words)
        summary = json.loads(result.stdout)
        seen[summary["format"]] += summary["sent"]
        assert summary["ignored_fields"] == {}
    assert seen == SENT


def test_dump_can_be_reimported(
    run: Run, vector_server: Server, own_settings: Settings, start: Callable[[Settings], AbstractContextManager[Server]]
) -> None:
    (dump,) = (block for block in blocks() if block.page == PAGE and block.text.startswith("nomemory export"))
    export, back = (shlex.split(line)[1:] for line in dump.text.splitlines())
    Path("one.jsonl").write_text(examples()[0][0], encoding="utf-8")
    run("import", "one.jsonl", "--target", vector_server.target)
    assert run(*export, "--target", vector_server.target).exit_code == 0
    with start(own_settings) as other:
        back[-1] = other.target
        result = run(*back, "--json")
    assert (result.exit_code, json.loads(result.stdout)["rejected"]) == (0, 0), result.stderr
    assert json.loads(result.stdout)["sent"] >= 2
