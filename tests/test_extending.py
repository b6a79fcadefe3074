"""Tests for docs/extending.md: the example package is installed, and its extensions are selected by name."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluation.temporary_server import temporary_server
from nomemory.cli.main import nomemory
from nomemory.v1 import ingest_service_pb2

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "examples" / "plugin"
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
NOMEMORY = str(Path(sys.executable).with_name("nomemory"))


def command_of_the_page(name: str) -> list[str]:
    """Return the arguments of the command `nomemory NAME …` of the page, with JSON as its output."""
    (line,) = re.findall(rf"^nomemory ({name} .+)$", PAGE, re.MULTILINE)
    return [*shlex.split(line), "--json"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@dataclass(frozen=True)
class Installed:
    """An environment with the example package."""

    environment: dict[str, str]
    folder: Path

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the package like `pip install` into a folder that only the test processes use."""
    packages, folder = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("work")
    how = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(packages)]
    subprocess.run([sys.executable, "-m", "pip", "install", *how, str(PACKAGE)], check=True, timeout=100)
    (example,) = blocks("json")
    (folder / "day.json").write_text(example, encoding="utf-8")
    return Installed({**os.environ, "PYTHONPATH": str(packages)}, folder)


@contextmanager
def serving(installed: Installed) -> Iterator[str]:
    """Run a server with the command of the page; return its address."""
    chosen = dict(re.findall(r"^(NOMEMORY_\w+)=(\S+) nomemory serve$", PAGE, re.MULTILINE))
    assert chosen == {"NOMEMORY_EMBEDDER": "trigrams", "NOMEMORY_RECALL_PLANNER": "one-search"}
    with temporary_server({**chosen, "PYTHONPATH": installed.environment["PYTHONPATH"]}) as server:
        yield server.target


def test_page_shows_the_current_example_package() -> None:
    for file in (PACKAGE / "nomemory_examples").glob("[!_]*.py"):
        assert f"(../{file.relative_to(ROOT).as_posix()})" in PAGE
        assert file.read_text(encoding="utf-8") in blocks("python")
    (entry_points,) = blocks("toml")
    assert (PACKAGE / "pyproject.toml").read_text(encoding="utf-8").endswith(entry_points)


def test_example_package_tests_pass(installed: Installed) -> None:
    tests = [block for block in blocks("python") if not block.startswith('"""')]
    for number, test in enumerate(tests):
        (installed.folder / f"test_{number}.py").write_text(test, encoding="utf-8")
    files = [f"test_{number}.py" for number in range(len(tests))]
    done = installed.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files)
    assert "4 passed" in done.stdout, done.stdout


def test_server_runs_with_extension_embedder_planner_and_format(installed: Installed) -> None:
    with serving(installed) as target:
        imported = installed.run(NOMEMORY, *command_of_the_page("import"), NOMEMORY_TARGET=target)
        assert imported.returncode == 0, imported.stderr
        assert (json.loads(imported.stdout)["format"], json.loads(imported.stdout)["sent"]) == ("slack", 2)

        runner = CliRunner(env={"NOMEMORY_TARGET": target})
        output = runner.invoke(nomemory, command_of_the_page("semantic"))
        assert len(output.stdout.splitlines()) == 2, output.stderr
        status = runner.invoke(nomemory, ["status", "--json"])
        assert json.loads(status.stdout)["embedder"]["kind"] == ingest_service_pb2.EMBEDDER_KIND_PLUGIN

        answer = json.loads(runner.invoke(nomemory, command_of_the_page("recall")).stdout)
        assert [item["message"]["content"] for item in answer["evidence"]].count("The invoice went out today.") == 1
        assert answer["limits"]["planner"] == "PLANNER_PLUGIN"


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("NOMEMORY_EMBEDDER", "auto, local, openai, none, trigrams"),
        ("NOMEMORY_RECALL_PLANNER", "auto, rules, llm, one-search"),
    ],
)
def test_unregistered_extension_prevents_the_start(
    installed: Installed, tmp_path: Path, setting: str, names: str
) -> None:
    quiet = {"NOMEMORY_EMBEDDER": "none", "NOMEMORY_DATA": str(tmp_path), "NOMEMORY_LISTEN": "127.0.0.1:0"}
    done = installed.run(NOMEMORY, "serve", **quiet | {setting: "absent"})
    assert done.returncode == 1
    assert f"{setting}: unknown name 'absent'; available: {names}" in done.stderr


def test_unregistered_format_is_a_usage_error(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(installed.environment["PYTHONPATH"])
    file = str(installed.folder / "day.json")
    done = CliRunner().invoke(nomemory, ["import", file, "--format", "absent"])
    assert done.exit_code == 2
    names = "jsonl, chatgpt, claude, claude-code, codex, cursor, letta, mem0, zep, whatsapp, openai, slack"
    assert f"unknown name 'absent'; available: {names}." in " ".join(done.stderr.split())


def test_only_the_selected_extension_is_imported(installed: Installed) -> None:
    program = """
import sys
from nomemory.server.embedding.factory import choose_embedder
from nomemory.server.runtime.settings import Settings
assert choose_embedder(Settings.from_environment(embedder="none")).kind == "none"
assert "nomemory_examples" not in sys.modules
assert choose_embedder(Settings.from_environment(embedder="trigrams")).kind == "trigrams"
print(sorted(name for name in sys.modules if name.startswith("nomemory_examples.")))
"""
    done = installed.run(sys.executable, "-c", program)
    assert done.stdout.strip() == "['nomemory_examples.trigrams']", done.stderr


def test_doctor_checks_an_extension_embedder(installed: Installed, tmp_path: Path) -> None:
    done = installed.run(NOMEMORY, "doctor", NOMEMORY_EMBEDDER="trigrams", COLUMNS="200")
    assert "trigrams: not called" in done.stdout, done.stderr
    absent = {"NOMEMORY_EMBEDDER": "absent", "COLUMNS": "200"}
    unknown = CliRunner().invoke(nomemory, ["doctor", "--data", str(tmp_path / "data")], env=absent)
    assert "unknown name 'absent'" in unknown.stdout, unknown.stderr
