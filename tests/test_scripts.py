"""Tests that `--help` of every script prints its help without side effects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_no_side_effects(command: str, checkout: Path) -> None:
    before = files(checkout)
    done = subprocess.run(
        [checkout / command, "--help"], cwd=checkout, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert files(checkout) == before
    assert done.stdout.startswith("usage: ")
    assert len(done.stdout.splitlines()) > 2


EXPLAIN = """
import contextlib, io, json, runpy, sys, traceback
printed = {}
for name in sys.argv[1:]:
    sys.argv, failure = [name, "--help"], ""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            if name.endswith(".py"):
                runpy.run_path(name, run_name="__main__")
            else:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as error:
            failure = f"exit status {error.code}: " if error.code else ""
        except BaseException:
            failure = traceback.format_exc()
    printed[name] = failure + output.getvalue()
print(json.dumps(printed))
"""
"""Runs programs and modules in one process, because most of their time would be the same imports."""


@pytest.fixture(scope="module")
def printed(checkout: Path) -> dict[str, str]:
    """What each program and module prints about itself, after its failure if it fails."""
    before = files(checkout)
    path = f"{checkout / 'scripts'}:{ROOT / 'tests'}"  # some scripts import test modules
    done = subprocess.run(
        [sys.executable, "-c", EXPLAIN, *PROGRAMS, *MODULES],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert files(checkout) == before
    outputs: dict[str, str] = json.loads(done.stdout)
    return outputs


@pytest.mark.parametrize("name", [*PROGRAMS, *MODULES])
def test_help_of_a_program_has_no_side_effects(name: str, printed: dict[str, str]) -> None:
    assert printed[name].lower().startswith("usage: ")
