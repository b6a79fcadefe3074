"""Tests for the content of the two distributions."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import nomemory.client
import nomemory.recall
import nomemory.server

ROOT = Path(__file__).parent.parent
CLIENT = ROOT / "clients" / "python"


def project(folder: Path) -> dict[str, Any]:
    read: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return read


def built(source: Path, target: str, into: Path) -> Path:
    """Build one distribution of a source tree; return the file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, text=True)
    (file,) = into.iterdir()
    return file


def wheel_from_sdist(source: Path, work: Path) -> set[str]:
    """Build an sdist, and a wheel from it; return the file names in the wheel."""
    with tarfile.open(built(source, "sdist", work / "sdist")) as sdist:
        sdist.extractall(work / "unpacked", filter="data")
    (unpacked,) = (work / "unpacked").iterdir()
    with zipfile.ZipFile(built(unpacked, "wheel", work / "wheel")) as wheel:
        return set(wheel.namelist())


@pytest.fixture(scope="module")
def server_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The file names in the wheel `nomemory`."""
    return wheel_from_sdist(ROOT, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def client_files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The file names in the wheel `nomemory-client`."""
    return wheel_from_sdist(CLIENT, tmp_path_factory.mktemp("client"))


def in_the_tree(*folders: Path) -> set[str]:
    return {
        str(file.relative_to(folder))
        for folder in folders
        for file in (folder / "nomemory").rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }


def shipped_skills() -> set[str]:
    return {f"nomemory/{file.relative_to(ROOT)}" for file in (ROOT / "skills").rglob("*") if file.is_file()}


SAMPLE = "nomemory/sample/messages.jsonl"


def without_metadata(files: set[str]) -> set[str]:
    return {file for file in files if ".dist-info/" not in file}


def test_client_wheel_has_the_contract_and_the_client(client_files: set[str]) -> None:
    assert without_metadata(client_files) == in_the_tree(CLIENT)
    assert {file.split("/")[1] for file in without_metadata(client_files)} == {"client", "frameworks", "v1"}


def test_server_wheel_has_server_recall_skills_and_sample(server_files: set[str]) -> None:
    expected = in_the_tree(ROOT / "server", ROOT / "recall") | shipped_skills() | {SAMPLE}
    assert without_metadata(server_files) == expected


def test_wheels_share_no_file_and_have_no_namespace_init(server_files: set[str], client_files: set[str]) -> None:
    assert not server_files & client_files
    assert "nomemory/__init__.py" not in server_files | client_files


def test_every_package_has_a_typing_marker(server_files: set[str], client_files: set[str]) -> None:
    files = without_metadata(server_files | client_files)
    packages = {file.split("/")[1] for file in files if file.endswith(".py")}
    assert {file.split("/")[1] for file in files if file.endswith("/py.typed")} == packages


def test_server_requires_the_client_of_its_version() -> None:
    server, client = project(ROOT), project(CLIENT)
    assert server["version"] == client["version"]
    assert f"nomemory-client=={client['version']}" in server["dependencies"]


def test_every_public_package_has_its_version() -> None:
    versions = {package.__version__ for package in (nomemory.client, nomemory.recall, nomemory.server)}
    assert versions == {project(ROOT)["version"]}
    command = [str(Path(sys.executable).with_name("nomemory")), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] in versions


def test_client_requires_grpc_and_no_server_dependency() -> None:
    needed = {re.split(r"[<>=~]", item)[0] for item in project(CLIENT)["dependencies"]}
    assert needed == {"googleapis-common-protos", "grpcio", "grpcio-status", "protobuf"}


def test_wheels_have_the_license_and_the_same_example() -> None:
    def example(readme: Path) -> list[str]:
        return re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)

    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert example(CLIENT / "README.md") == example(ROOT / "docs" / "first-steps.md") != []


def test_package_description_has_absolute_links_and_the_registry_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(ROOT, "wheel", tmp_path)) as wheel:
        [name] = [item for item in wheel.namelist() if item.endswith(".dist-info/METADATA")]
        page = wheel.read(name).decode().partition("\n\n")[2]
    assert "<!-- mcp-name: io.github.nomemory/nomemory -->" in page
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert len(targets) > 20
    assert all(target.startswith("https://") for target in targets)
