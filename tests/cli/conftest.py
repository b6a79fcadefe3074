"""Ways to run the command line, and to compare what it shows with what it showed when somebody looked at it last."""

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
    """Run `nomemory` with arguments, in a directory of its own."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str, stdin: str | bytes = "", colour: bool = False) -> Result:
        return CliRunner().invoke(nomemory, arguments, input=stdin, env=COLOUR if colour else PLAIN)

    return invoke


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare a text with a file in `golden/`; with NOMEMORY_UPDATE_GOLDEN=1, write the file first.

    Blanks at the ends of lines, which fill a table up, are left out.
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
    """A server that says what the test tells it to."""
    with scripted_server() as running:
        yield running
