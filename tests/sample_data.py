"""The sample on a server, and in a data directory that all processes of a test run use."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from file_lock import locked_file

from nomemory.cli.main import nomemory
from nomemory.server.runtime.settings import Settings
from running_server import started


def import_sample(target: str) -> None:
    """Import the sample as docs/first-steps.md does, and wait until it is indexed."""
    imported = CliRunner().invoke(nomemory, ["import", "--sample", "--wait", "--target", target])
    assert imported.exit_code == 0, imported.output


def prepare_embedded_sample(shared: Path) -> Path:
    """Return a data directory with the sample and its vectors.

    The first process of a test run creates it, because the embedder needs ten seconds for the sample.
    """
    shared.mkdir(parents=True, exist_ok=True)
    data = shared / "embedded-sample"
    with locked_file(shared / "embedded-sample.lock"):
        if not data.exists():
            unfinished = shared / "unfinished-sample"
            with started(Settings.from_environment(data=unfinished, listen="127.0.0.1:0")) as server:
                import_sample(server.target)
            unfinished.rename(data)
    return data
