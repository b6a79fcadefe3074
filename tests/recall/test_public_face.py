"""Tests for the public API of the recall package and the documented program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.metadata import version
from inspect import getmembers, isclass
from pathlib import Path
from typing import TYPE_CHECKING

from chat_messages import new_message
from nomemory import recall
from nomemory.client import Client
from nomemory.recall import RecallError
from nomemory.server.runtime.settings import Settings

if TYPE_CHECKING:
    from running_server import Server

PAGE = (Path(__file__).parents[2] / "docs" / "recall.md").read_text(encoding="utf-8")


def test_documented_program_recalls_in_its_own_process(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    (program,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "asyncio.run" in block)
    with start(own_settings) as server, Client(server.target) as client:
        written = client.write([new_message("sam", "1", "I am allergic to peanuts.", 1_700_000_000)])
        client.lexical_search("sam", "peanuts", at_least=written.write_token)
        program = program.replace("127.0.0.1:7700", server.target)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "I am allergic to peanuts" in done.stdout, done.stderr
    (block,) = re.findall(r"^<<<MEMORY (\w+)\n(.*)\nMEMORY \1>>>$", done.stdout, re.MULTILINE)
    assert json.loads(block[1])[3] == "I am allergic to peanuts."


def test_exported_names_exist() -> None:
    assert all(hasattr(recall, name) for name in recall.__all__)
    assert recall.__version__ == version("nomemory")


def test_host_without_a_model_does_not_import_the_model_client() -> None:
    program = "import sys, nomemory.recall; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_every_exception_of_the_package_is_a_recall_error() -> None:
    folder = Path(recall.__path__[0])
    names = [".".join(file.relative_to(folder).with_suffix("").parts) for file in folder.rglob("*.py")]
    own_exceptions = [
        member
        for name in names
        for _, member in getmembers(import_module(f"{recall.__name__}.{name}"), isclass)
        if issubclass(member, Exception) and member.__module__.startswith(recall.__name__)
    ]
    assert len(own_exceptions) > 10
    assert [item for item in own_exceptions if not issubclass(item, RecallError)] == []
