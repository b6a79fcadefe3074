"""What docs/tutorial.md says, in both languages: its code is that of the example, and its commands work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from served import Server

ROOT = Path(__file__).parent.parent
ASSISTANT = ROOT / "examples" / "assistant" / "assistant.py"
BIN = Path(sys.executable).parent
PAGES = {"tutorial.md": "I am allergic to peanuts.", "tutorial.zh.md": "我对花生过敏。"}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def run(command: str, server: Server) -> str:
    done = subprocess.run(
        ["bash", "-c", command.replace(".venv/bin/", f"{BIN}/")],  # noqa: S607 - the shell that the page is for
        cwd=ROOT,
        env={**{k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"}, "NOMEMORY_TARGET": server.target},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_its_code_is_that_of_the_example(page: str) -> None:
    source = ASSISTANT.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert blocks(page, "python")
    assert all(block in source for block in blocks(page, "python"))


@pytest.mark.parametrize(("page", "said"), PAGES.items())
def test_its_assistant_remembers(server: Server, page: str, said: str) -> None:
    _, talk, look = blocks(page, "sh")
    first, second = talk.splitlines()
    run(first, server)
    assert run(second, server).strip() == f"You said: {said}"
    assert said in run(look, server)
