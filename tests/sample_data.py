"""Import the sample, and prepare a data directory with its messages and vectors."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from nomemory.cli.main import nomemory
from nomemory.server.runtime.secure_files import file_lock
from nomemory.server.runtime.settings import Settings
from running_server import started


def import_sample(target: str) -> None:
    """Import the sample with the command of docs/first-steps.md, and wait until it is indexed."""
    imported = CliRunner().invoke(nomemory, ["import", "--sample", "--wait", "--target", target])
    assert imported.exit_code == 0, imported.output


def prepare_embedded_sample(shared: Path) -> Path:
    """Return a data directory with the sample and its vectors.

    It is created once per test run, because embedding the sample takes about ten seconds.
    """
    shared.mkdir(parents=True, exist_ok=True)
    data = shared / "embedded-sample"
    with file_lock(data):
        if not data.exists():
            unfinished = shared / "unfinished-sample"
            with started(Settings.from_environment(data=unfinished, listen="127.0.0.1:0")) as server:
                import_sample(server.target)
            unfinished.rename(data)
    return data
