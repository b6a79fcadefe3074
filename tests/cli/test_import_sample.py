"""Tests for `nomemory import --sample`."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command_line import Run

from nomemory.importing.sample import get_sample_path
from running_server import Server

ROOT = Path(__file__).parents[2]


def test_sample_import_needs_no_file(run: Run, vector_server: Server) -> None:
    result = run("import", "--sample", "--target", vector_server.target, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["sent"] == 377


def test_checkout_sample_equals_the_packaged_sample() -> None:
    assert get_sample_path() == ROOT / "sample" / "messages.jsonl"


def test_import_without_arguments_suggests_the_sample(run: Run) -> None:
    result = run("import")
    assert (result.exit_code, "--sample" in result.stderr) == (2, True)
