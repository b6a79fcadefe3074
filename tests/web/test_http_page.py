"""Tests for the commands in docs/http.md."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from web.http_server import Web

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
COMMANDS = [
    command
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for command in block.split("\n\n")
    if " serve " not in command
]
BIN = Path(sys.executable).parent


def run(command: str, web: Web) -> str:
    here = command.replace("http://127.0.0.1:7701", web.server.http).replace(".venv/bin/", f"{BIN}/")
    shell = ["bash", "-o", "pipefail", "-c", here]
    done = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not on the PATH")
def test_documented_commands_work_in_order(web: Web) -> None:
    answers = {command: run(command, web) for command in COMMANDS}
    for command, answer in answers.items():
        if "curl -sSN" in command and "ndjson" not in command:
            assert answer.endswith("event: end\ndata: {}\n\n"), answer
        elif "color" in command:
            assert "ERROR_REASON_INVALID_FIELD" in answer
        else:
            assert "error" not in json.loads(answer), answer
    (imported,) = (answer for command, answer in answers.items() if ":import" in command)
    assert json.loads(imported)["unchanged"] == "2"


def test_page_has_commands() -> None:
    assert len(COMMANDS) >= 9


def test_page_links_are_valid() -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE):
        assert target.startswith("https://") or (ROOT / "docs" / target).exists(), target
