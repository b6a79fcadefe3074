"""Fixtures that run the command line and compare its output with golden files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.command_line import PLAIN, Run
from click.testing import CliRunner, Result
from client.scripted_server import Scripted, scripted_server

from nomemory.cli.main import nomemory

GOLDEN = Path(__file__).parent / "golden"

UPDATE = "NOMEMORY_UPDATE_GOLDEN"

COLOUR = PLAIN | {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": None}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `nomemory` with arguments in a temporary working directory."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, stdin: str | bytes = "", colour: bool = False) -> Result:
        return CliRunner().invoke(nomemory, arguments, input=stdin, env=COLOUR if colour else PLAIN)

    return invoke


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a file in `golden/`.

    With NOMEMORY_UPDATE_GOLDEN=1, the file is written first. Trailing blanks, which pad tables, are ignored.
    """

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        tidy = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
        if os.environ.get(UPDATE):
            path.write_text(tidy, encoding="utf-8")
        assert tidy == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def script() -> Iterator[Scripted]:
    """A server with scripted responses."""
    with scripted_server() as running:
        yield running
