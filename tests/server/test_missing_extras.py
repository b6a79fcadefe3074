"""Tests that a server with a missing extra does not start and names the install command."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
WITHOUT = """
import importlib.util, sys
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {packages!r} else known(name, *more)
sys.modules.update(dict.fromkeys({packages!r}))
from nomemory.cli.main import main
sys.argv = ["nomemory", *{arguments!r}]
main()
"""
"""Nothing finds the packages, and importing one fails."""
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
    "NOMEMORY_EMBEDDING_MODEL_DIR": ("tokenizers", "tokenizers", {"NOMEMORY_EMBEDDING_MODEL_DIR": "model"}),
}
INCLUDED = {"mcp"}
"""Extras of former versions, whose packages come with every installation."""


def command(packages: Sequence[str], *arguments: str) -> list[str]:
    """Return a command that runs without some packages."""
    return [sys.executable, "-c", WITHOUT.format(packages=tuple(packages), arguments=arguments)]


def run(package: str, where: Path, more: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command without a package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NOMEMORY_")}
    command_line = command([package], *arguments)
    return subprocess.run(command_line, env=kept | more, cwd=where, capture_output=True, text=True, check=False)


def test_server_without_optional_features_needs_no_extra(tmp_path: Path) -> None:
    packages = sorted({package for _, package, _ in SETTINGS_BY_EXTRA.values()})
    serve = ("serve", "--data", "data", "--listen", "127.0.0.1:0")
    with subprocess.Popen(command(packages, *serve), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("NoMemory is serving at 127.0.0.1:")
        server.terminate()
    assert server.returncode == 0


@pytest.mark.parametrize("wanted_by", SETTINGS_BY_EXTRA)
def test_missing_extra_prevents_the_start_with_an_install_command(wanted_by: str, tmp_path: Path) -> None:
    extra, package, settings = SETTINGS_BY_EXTRA[wanted_by]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.onnx").touch()
    (tmp_path / "model" / "tokenizer.json").touch()
    serve = ("serve", "--data", "data", "--listen", "127.0.0.1:0", "--log-level", "error")
    done = run(package, tmp_path, {"NOMEMORY_EMBEDDER": "none"} | without_embedder(settings), *serve)
    assert (done.returncode, done.stdout) == (1, "")
    sentence = f"{wanted_by} requires an optional package: pip install 'nomemory[{extra}]'"
    assert done.stderr == f"Error: {sentence}\n"


def without_embedder(settings: dict[str, str]) -> dict[str, str]:
    return settings if "NOMEMORY_EMBEDDING_MODEL_DIR" not in settings else settings | {"NOMEMORY_EMBEDDER": "local"}


def test_migration_without_the_driver_names_the_missing_extra(tmp_path: Path) -> None:
    migration = ("migrate", "data", "postgresql://127.0.0.1:9/none")
    done = run("asyncpg", tmp_path, {}, *migration)
    assert done.returncode == 1
    assert "nomemory migrate requires an optional package: pip install 'nomemory[postgres]'" in done.stderr


def test_skill_is_created_without_an_unavailable_model(tmp_path: Path) -> None:
    new = ("skill", "new", "--scenario", "What a traveller wants to know again", "--name", "travel")
    done = run("openai", tmp_path, {"NOMEMORY_RECALL_MODEL": "qwen3:8b"}, *new)
    assert done.returncode == 0
    assert "The lexicon was not drafted: NOMEMORY_RECALL_MODEL requires an optional package" in done.stderr
    assert (tmp_path / "travel" / "SKILL.md").exists()


def test_every_extra_is_required_by_a_tested_setting() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {extra for extra, _, _ in SETTINGS_BY_EXTRA.values()} | INCLUDED == extras.keys()
    assert all(not extras[name] for name in INCLUDED)
