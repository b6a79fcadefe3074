"""Tests that the tree can be released: equal versions, and an executable workflow."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
import release
import yaml

from nomemory.cli.main import nomemory

ROOT = Path(__file__).parent.parent
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
FILES = sorted({path for path, _ in release.read_versions() if "/" in path or "." in path} - {"Chart.yaml"})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the files that a release checks."""
    for path in (*FILES, "deploy/helm/nomemory/Chart.yaml", "CHANGELOG.md", "README.md", "Dockerfile"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def version() -> str:
    return next(release.read_versions())[1]


def test_version_is_equal_in_every_file() -> None:
    assert not list(release.find_release_errors(None))


@pytest.mark.parametrize("path", FILES)
def test_file_with_another_version_is_reported(path: str, tree: Path) -> None:
    if path == "pyproject.toml":
        return  # the version in this file is the reference
    file = tree / path
    file.write_text(file.read_text("utf-8").replace(version(), "99.9.9"), "utf-8")
    assert any(path in error for error in release.find_release_errors(None, tree))


def test_tag_equals_the_version_and_has_a_changelog_section(tree: Path) -> None:
    tag = f"v{version()}"
    release.update_pages(tree)
    changelog = tree / "CHANGELOG.md"
    changelog.write_text("## [Unreleased]\n\n## [0.0.1] - 2026-01-01\n\nOld.\n", "utf-8")
    assert [error.split()[0] for error in release.find_release_errors(tag, tree)] == ["CHANGELOG.md:"]
    assert any("tag v0.0.9" in error for error in release.find_release_errors("v0.0.9", tree))
    changelog.write_text(
        f"## [Unreleased]\n\n## [{version()}] - 2026-02-01\n\nNew.\n\n## [0.0.1] - 2026-01-01\n\nOld.\n", "utf-8"
    )
    assert not list(release.find_release_errors(tag, tree))
    assert release.read_changelog_section(version(), tree) == "New."


def test_pages_before_the_first_release_are_reported_and_updated(tree: Path) -> None:
    assert {page.name for page in release.find_unreleased_pages()} >= {"README.md", "README.zh.md", "installing.md"}
    assert [str(page.relative_to(tree)) for page in release.find_unreleased_pages(tree)] == ["README.md"]
    assert any(error.startswith("README.md:") for error in release.find_release_errors(f"v{version()}", tree))
    release.update_pages(tree)
    assert not list(release.find_unreleased_pages(tree))
    readme = (tree / "README.md").read_text("utf-8")
    assert "\n```sh\npip install nomemory\nnomemory quickstart\n```\n" in readme
    assert "No version has been released yet" not in readme
    assert "\n-->" not in readme


def test_pages_show_no_index_installation_before_the_first_release() -> None:
    promise = re.compile(r"(?:uvx|pipx run|pip install) nomemory\b")
    for folder in (ROOT, ROOT / "docs", ROOT / "website"):
        for page in folder.glob("*.md"):
            text = re.sub(r"<!-- after the first release\n.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)
            assert not promise.search(text), page


def test_missing_mcp_registry_name_is_reported(tree: Path) -> None:
    readme = tree / "README.md"
    readme.write_text(readme.read_text("utf-8").replace("mcp-name: ", "name: "), "utf-8")
    assert any("mcp-name" in error for error in release.find_release_errors(None, tree))


def test_mcp_registry_manifest_names_an_existing_command() -> None:
    manifest = release.read_server_manifest()
    assert len(manifest["description"]) <= 100  # the limit of the registry
    [package] = manifest["packages"]
    command, *options = [item["value"] for item in package["packageArguments"]]
    subcommand = nomemory.get_command(click.Context(nomemory), command)
    assert subcommand is not None
    assert set(options) <= {option for param in subcommand.params for option in param.opts}


def test_scripts_of_the_release_workflow_exist() -> None:
    runs = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    ours = {path for run in runs for path in re.findall(r"(?:scripts|\.ci)/[\w./]+", run)}
    assert {".ci/run", "scripts/check_release", "scripts/build_release"} <= ours
    assert all((ROOT / path).is_file() for path in ours)


def test_release_jobs_wait_for_all_checks() -> None:
    jobs = WORKFLOW["jobs"]

    def waits_for(name: str) -> set[str]:
        needed = jobs[name].get("needs", [])
        direct = {needed} if isinstance(needed, str) else set(needed)
        return direct.union(*map(waits_for, direct))

    assert all("check" in waits_for(name) for name in jobs if name != "check")
    assert waits_for("github") == jobs.keys() - {"github"}


def test_workflow_jobs_have_minimal_permissions() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    writing = {name for name, job in WORKFLOW["jobs"].items() if job.get("permissions", {}).get("contents") == "write"}
    assert writing == {"go", "github"}
