"""scripts/bare_environment, in which scripts/check_dists runs the packages, is isolated like a container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deploy.files import ROOT, pairs

BARE = str(ROOT / "scripts" / "bare_environment")
PYTHON = sys.executable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="an image is of Linux")


def run(volume: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the image does."""
    return subprocess.run([BARE, str(volume), *command], capture_output=True, text=True, check=False)


def skip_unless_sealed(done: subprocess.CompletedProcess[str]) -> None:
    if "cannot make mounts read-only" in done.stderr:
        pytest.skip("this system lets nobody make a mount read-only")


def test_command_does_not_see_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_LOG_LEVEL", "debug")
    done = run(tmp_path, "NOMEMORY_DRAIN_TIMEOUT_S=2", PYTHON, "-c", "import os; print(os.getcwd(), dict(os.environ))")
    assert done.returncode == 0, done.stderr
    where, _, environment = done.stdout.partition(" ")
    variables = eval(environment)  # noqa: S307 - printed by the line above
    assert where == "/"
    of_the_image = {name: value.replace("/data", str(tmp_path)) for name, value in pairs("ENV").items()}
    assert variables.keys() - {"LC_CTYPE"} == of_the_image.keys() | {"NOMEMORY_DRAIN_TIMEOUT_S"}
    assert all(variables[name] == value for name, value in of_the_image.items() if name != "PATH")


def test_only_the_volume_is_writable(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    writes = f"""
from pathlib import Path
Path({str(volume)!r}, "within").write_text("")
try:
    Path({str(tmp_path)!r}, "beside").write_text("")
except OSError:
    print("refused")
"""
    done = run(volume, PYTHON, "-c", writes)
    skip_unless_sealed(done)
    assert done.stdout == "refused\n", done.stderr
    assert (volume / "within").exists()


def test_command_has_no_capabilities(tmp_path: Path) -> None:
    done = run(tmp_path, PYTHON, "-c", "print(*open('/proc/self/status'), sep='')")
    skip_unless_sealed(done)
    assert "CapEff:\t0000000000000000\n" in done.stdout, done.stderr
