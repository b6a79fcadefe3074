"""The SBOM lists all runtime dependencies and no development tools."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib

import pytest
from deploy.files import ROOT, VERSION
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Versions by the names of the components."""
    file = tmp_path_factory.mktemp("sbom") / "nomemory.cdx.json"
    subprocess.run([sys.executable, str(ROOT / "scripts" / "sbom.py"), str(file)], check=True, capture_output=True)
    document = json.loads(file.read_text("utf-8"))
    assert document["specVersion"] == "1.6"
    assert document["metadata"]["component"]["version"] == VERSION
    assert all(item["licenses"] for item in document["components"])
    return {item["name"]: item["version"] for item in document["components"]}


def test_sbom_lists_dependencies_but_no_tools(listed: dict[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    needed = [Requirement(item) for item in project["project"]["dependencies"]]
    here = {canonicalize_name(item.name) for item in needed if item.marker is None or item.marker.evaluate()}
    assert here <= listed.keys()
    assert not {"pytest", "ruff", "mypy", "pip-audit", "hypothesis", "openai"} & listed.keys()


def test_sbom_versions_are_pinned_versions(listed: dict[str, str]) -> None:
    pinned = dict(re.findall(r"^(\S+)==(\S+)$", (ROOT / "constraints.txt").read_text("utf-8"), re.MULTILINE))
    pinned_versions = {canonicalize_name(name): version for name, version in pinned.items()}
    assert {
        name: version for name, version in listed.items() if name != "nomemory-client"
    }.items() <= pinned_versions.items()
