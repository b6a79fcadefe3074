"""A server's processes start often, and on small machines: none of them loads what it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "useless"),
    [
        ("nomemory.cli.serve_runner", {"rich", "pygments", "uvicorn", "starlette", "nomemory.server.api.http"}),
        ("nomemory.server.indexing.lexical.worker", {"rich", "pygments", "numpy", "grpc", "pydantic"}),
        ("nomemory.server.search.semantic.edge.worker", {"rich", "pygments", "numpy", "grpc", "pydantic", "structlog"}),
    ],
)
def test_a_process_loads_nothing_useless(module: str, useless: set[str]) -> None:
    code = f"import sys, {module}; print(*({useless!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def test_a_command_loads_what_a_client_needs_and_little_more() -> None:
    """It is called often, by people who wait: a tenth of a second is three hundred modules."""
    code = (
        "import sys; from nomemory.cli.main import main; sys.argv[1:] = ['count', '--user', 'u', '--target', "
        "'127.0.0.1:1']\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    useless = {"nomemory.server", "nomemory.recall", "numpy", "pydantic", "sqlite3", "structlog", "orjson", "pygments"}
    assert "nomemory.cli.query_commands" in loaded
    assert not loaded & useless
    assert len(loaded) < 500


def test_the_command_line_has_its_colours_whatever_the_server_loads_without_them() -> None:
    code = "import sys, nomemory.cli.serve_runner, rich.console; print(sys.modules['rich'].__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["rich"]
