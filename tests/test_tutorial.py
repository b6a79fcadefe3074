"""Tests for the program and commands of docs/tutorial.md in both languages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from documentation.blocks import Block, blocks, of_page

from proofs.scripted_endpoint import Body, ScriptedEndpoint

if TYPE_CHECKING:
    from running_server import Server

ROOT = Path(__file__).parent.parent
ASSISTANT = ROOT / "examples" / "assistant" / "assistant.py"
BIN = Path(sys.executable).parent
PAGES = ("docs/tutorial.md", "docs/tutorial.zh.md")
VARIABLE = {
    r"m_[0-9A-Z]{26}": "ID",
    r"\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d)?": "DATE",
    r"\d\d:\d\d": "TIME",
    r"\w+day .* UTC": "DAY",
}
"""What differs between two runs: ids, dates and times."""


def commands(page: str) -> list[tuple[Block, Block]]:
    """Return the commands of a page, each with its output block."""
    ours = [block for block in blocks() if block.page == page]
    return [(command, output) for command, output in pairwise(ours) if command.language == "sh" and not output.language]


def run(command: str, target: str, *, key: str = "", base_url: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command like a reader who has saved the program and activated the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    model = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": base_url} if key else {}
    return subprocess.run(
        ["bash", "-c", command],  # noqa: S607 - the shell that the page is for
        cwd=ASSISTANT.parent,
        env={**inherited, **model, "NOMEMORY_TARGET": target, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def comparable(output: str) -> list[str]:
    """Return the lines of an output without parts that differ between runs."""
    for pattern, name in VARIABLE.items():
        output = re.sub(pattern, name, output)
    return [line.rstrip() for line in output.splitlines()]


@pytest.mark.parametrize("page", PAGES)
def test_program_on_the_page_is_the_example(page: str) -> None:
    source = ASSISTANT.read_text(encoding="utf-8")
    program, *excerpts = (block.text for block in of_page(page, "python"))
    assert program == source
    assert len(source.splitlines()) <= 65
    assert excerpts
    assert all(excerpt in source for excerpt in excerpts)


@pytest.mark.parametrize("page", PAGES)
def test_each_command_prints_the_output_on_the_page(server: Server, page: str) -> None:
    assert len(commands(page)) == 7
    for command, output in commands(page):
        done = run(command.text, server.target)
        assert done.returncode == 0, done.stderr
        printed, shown = comparable(done.stdout + done.stderr), comparable(output.text)
        if shown[-1] == "…":
            shown, printed = shown[:-1], printed[: len(shown) - 1]
        assert printed == shown


def test_assistant_reports_missing_prerequisites(server: Server, tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError(name='openai')\n")
    program = f"python {ASSISTANT} ann"
    missing = {
        f"{BIN}/python -I -S {ASSISTANT} ann": "The package nomemory is missing.",
        f"python {ASSISTANT}": "usage: python assistant.py USER_ID",
        f"echo Hello. | NOMEMORY_TARGET=127.0.0.1:1 {program}": "start one with: nomemory serve",
        f"echo Hello. | OPENAI_API_KEY=k PYTHONPATH={tmp_path} {program}": "pip install openai",
    }
    for command, message in missing.items():
        done = run(command, server.target)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_assistant_answers_with_a_chat_model_that_reads_the_memory(server: Server) -> None:
    prompts: list[str] = []

    def reply(body: Body) -> str:
        prompts.append(body["messages"][0]["content"])
        return "Peanuts."

    endpoint = ScriptedEndpoint(dimension=4)
    endpoint.chat = reply
    command = "printf '%s\\n' 'I am allergic to peanuts.' 'What am I allergic to?' | python assistant.py ann-with-model"
    with endpoint.serve():
        done = run(command, server.target, key="k", base_url=endpoint.url)
    assert done.stdout.splitlines() == ["Peanuts.", "Peanuts."], done.stderr
    assert "I am allergic to peanuts." in prompts[-1]
