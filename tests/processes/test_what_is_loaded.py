"""Processes import only the packages that they need."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "useless"),
    [
        ("nomemory.cli.serve_runner", {"rich", "pygments", "uvicorn", "starlette", "nomemory.server.api.http"}),
        ("nomemory.server.indexing.lexical.worker", {"rich", "pygments", "numpy", "grpc", "pydantic", "structlog"}),
        ("nomemory.server.search.semantic.edge.worker", {"rich", "pygments", "numpy", "grpc", "pydantic", "structlog"}),
    ],
)
def test_a_process_does_not_import_unused_packages(module: str, useless: set[str]) -> None:
    code = f"import sys, {module}; print(*({useless!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()


def test_a_client_command_imports_only_client_packages() -> None:
    """It is called often, by people who wait: a tenth of a second is three hundred modules."""
    code = (
        "import sys; from nomemory.cli.main import nomemory\n"
        "try: nomemory(['count', '--user', 'u', '--target', '127.0.0.1:1'])\nexcept SystemExit: print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    useless = {"nomemory.server", "nomemory.recall", "numpy", "pydantic", "sqlite3", "structlog", "orjson", "pygments"}
    assert "nomemory.cli.query_commands" in loaded
    assert not loaded & useless
    assert len(loaded) < 500


def test_the_command_line_uses_colors_even_if_the_server_does_not() -> None:
    code = "import sys, nomemory.cli.serve_runner, rich.console; print(sys.modules['rich'].__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["rich"]
