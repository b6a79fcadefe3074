"""Tests that a server with a missing extra does not start and names the install command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WITHOUT = """
import importlib.util, json, sys
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {packages!r} else known(name, *more)
sys.modules.update(dict.fromkeys({packages!r}))
from click.testing import CliRunner
from nomemory.cli.main import main, nomemory
"""
"""Nothing finds the packages, and importing one fails."""
RUN_COMMAND = """
sys.argv[0] = "nomemory"
main()
"""
RUN_COMMANDS = """
for arguments, environment in json.load(sys.stdin):
    result = CliRunner().invoke(nomemory, arguments, env=environment)
    print(json.dumps([result.exit_code, result.stdout, result.stderr]))
"""
MODEL = {"NOMEMORY_EMBEDDER": "local", "NOMEMORY_EMBEDDING_MODEL_DIR": "model"}
SETTINGS_BY_EXTRA = {
    "NOMEMORY_EMBEDDER=openai": ("openai", "openai", {"NOMEMORY_EMBEDDER": "openai"}),
    "NOMEMORY_RECALL_MODEL": ("openai", "openai", {"NOMEMORY_RECALL_MODEL": "qwen3:8b"}),
    "NOMEMORY_QDRANT_URL": ("qdrant", "qdrant_client", {"NOMEMORY_QDRANT_URL": "http://127.0.0.1:9"}),
    "NOMEMORY_DATABASE_URL with a database": (
        "postgres",
        "asyncpg",
        {"NOMEMORY_DATABASE_URL": "postgresql://127.0.0.1:9/none"},
    ),
    "NOMEMORY_OTLP_ENDPOINT": ("otel", "opentelemetry.sdk", {"NOMEMORY_OTLP_ENDPOINT": "http://127.0.0.1:9"}),
    "NOMEMORY_EMBEDDING_MODEL_DIR": ("tokenizers", "tokenizers", MODEL),
}
INCLUDED = {"mcp"}
"""Extras of former versions, whose packages come with every installation."""


SERVE = ("serve", "--data", "data", "--listen", "127.0.0.1:0", "--log-level", "error")
SKILL = ("skill", "new", "--scenario", "What a traveller wants to know again", "--name", "travel")


def program(run: str) -> list[str]:
    """Return the command line of a program without any optional package."""
    packages = sorted({package for _, package, _ in SETTINGS_BY_EXTRA.values()})
    return [sys.executable, "-c", WITHOUT.format(packages=tuple(packages)) + run]


@dataclass(frozen=True)
class Finished:
    """The end of a command."""

    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Commands:
    """The commands that ran in a directory without the optional packages, by the setting or command that wants them."""

    directory: Path
    finished: dict[str, Finished]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    directory = tmp_path_factory.mktemp("missing")
    (directory / "model").mkdir()
    (directory / "model" / "model.onnx").touch()
    (directory / "model" / "tokenizer.json").touch()
    invocations: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        wanted_by: (SERVE, {"NOMEMORY_EMBEDDER": "none"} | settings)
        for wanted_by, (_, _, settings) in SETTINGS_BY_EXTRA.items()
    }
    invocations["migrate"] = (("migrate", "data", "postgresql://127.0.0.1:9/none"), {})
    invocations["skill"] = (SKILL, {"NOMEMORY_RECALL_MODEL": "qwen3:8b"})
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOMEMORY_")}
    sent = json.dumps(list(invocations.values()))
    done = subprocess.run(
        program(RUN_COMMANDS), input=sent, env=kept, cwd=directory, capture_output=True, text=True, check=True
    )
    finished = [Finished(*json.loads(line)) for line in done.stdout.splitlines()]
    return Commands(directory, dict(zip(invocations, finished, strict=True)))


def test_server_without_optional_features_needs_no_extra(tmp_path: Path) -> None:
    command = [*program(RUN_COMMAND), *SERVE]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("NoMemory is serving at 127.0.0.1:")
        server.terminate()
    assert server.returncode == 0


@pytest.mark.parametrize("wanted_by", SETTINGS_BY_EXTRA)
def test_missing_extra_prevents_the_start_with_an_install_command(wanted_by: str, commands: Commands) -> None:
    extra, _, _ = SETTINGS_BY_EXTRA[wanted_by]
    sentence = f"{wanted_by} requires an optional package: pip install 'nomemory[{extra}]'"
    assert commands.finished[wanted_by] == Finished(1, "", f"Error: {sentence}\n")


def test_migration_without_the_driver_names_the_missing_extra(commands: Commands) -> None:
    done = commands.finished["migrate"]
    assert done.exit_code == 1
    assert "nomemory migrate requires an optional package: pip install 'nomemory[postgres]'" in done.stderr


def test_skill_is_created_without_an_unavailable_model(commands: Commands) -> None:
    done = commands.finished["skill"]
    assert done.exit_code == 0
    assert "The lexicon was not drafted: NOMEMORY_RECALL_MODEL requires an optional package" in done.stderr
    assert (commands.directory / "travel" / "SKILL.md").exists()


def test_every_extra_is_required_by_a_tested_setting() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for extra, _, _ in SETTINGS_BY_EXTRA.values()} | INCLUDED == extras.keys()
    assert all(not extras[name] for name in INCLUDED)
