"""Tests that `--help` of every script prints its help without side effects."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"serve_small_model.py"}
"""Runs in the environment of its model alone; scripts/with_small_model starts it."""
COMMANDS = sorted(
    file.relative_to(ROOT).as_posix()
    for file in (*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run")
    if file.is_file() and os.access(file, os.X_OK)
)
PROGRAMS = sorted(
    file.relative_to(ROOT).as_posix()
    for file in (ROOT / "scripts").glob("*.py")
    if '__name__ == "__main__"' in file.read_text("utf-8") and file.name not in ELSEWHERE
)
MODULES = sorted(
    {module for item in COMMANDS for module in re.findall(r"PROGRAM=(\S+)", (ROOT / item).read_text("utf-8"))}
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the scripts to a folder without an environment."""
    copied = tmp_path_factory.mktemp("checkout")
    for folder in ("scripts", ".ci"):
        shutil.copytree(ROOT / folder, copied / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def files(folder: Path) -> dict[Path, bytes]:
    """Return the contents of all files in a folder, except compiled modules."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc"}


def explained(command: Sequence[str], checkout: Path) -> str:
    """Ask a script for help; return its output after checking that there were no side effects."""
    before = files(checkout)
    path = f"{checkout / 'scripts'}:{ROOT / 'tests'}"  # some scripts import test modules
    variables = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [*command, "--help"], cwd=checkout, env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert files(checkout) == before
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_no_side_effects(command: str, checkout: Path) -> None:
    help_text = explained([str(checkout / command)], checkout)
    assert help_text.startswith("usage: ")
    assert len(help_text.splitlines()) > 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_of_a_program_has_no_side_effects(program: str, checkout: Path) -> None:
    assert explained([sys.executable, program], checkout).lower().startswith("usage: ")


@pytest.mark.parametrize("module", MODULES)
def test_module_prints_its_options(module: str, checkout: Path) -> None:
    assert explained([sys.executable, "-m", module], checkout).lower().startswith("usage: ")
