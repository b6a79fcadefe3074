"""Release checks and release notes.

`scripts/release.py check [TAG]` checks that all files declare one version, that TAG matches it, and that the changelog
has a section for it.
`scripts/release.py notes TAG` prints the changelog section of a version.
`scripts/release.py pages` replaces passages for unreleased versions with the passages that apply after the first
release.
`scripts/release.py registry FOLDER` validates server.json against the MCP registry schemas in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

ROOT = Path(__file__).parent.parent
_CHANGELOG = "CHANGELOG.md"
_PASSAGE = re.compile(
    r"<!-- before the first release -->\n\n?.*?<!-- after the first release\n\n?(.*?)-->\n\n?", re.DOTALL
)
_IN_TEXT = (
    ("pyproject.toml", r'"nomemory-client==([^"]+)"'),
    ("Dockerfile", r'image\.version="([^"]+)"'),
    ("deploy/compose.yaml", r"image: nomemory:(\S+)"),
    ("deploy/compose.cluster.yaml", r"image: nomemory:(\S+)"),
    ("docs/deployment.md", r"--tag nomemory:(\S+)"),
    ("clients/java/pom.xml", r"<artifactId>nomemory-client</artifactId>\s*<version>([^<]+)<"),
    ("clients/java/README.md", r"<artifactId>nomemory-client</artifactId>\s*<version>([^<]+)<"),
)


def read_versions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield each file that declares a version, with the version."""
    for path in ("pyproject.toml", "clients/python/pyproject.toml"):
        yield path, tomllib.loads(_read_text(root, path))["project"]["version"]
    for path, pattern in _IN_TEXT:
        yield from ((path, version) for version in re.findall(pattern, _read_text(root, path)) or ["none"])
    chart = yaml.safe_load(_read_text(root, "deploy/helm/nomemory/Chart.yaml"))
    yield from (("Chart.yaml", chart[name]) for name in ("version", "appVersion"))
    for path in ("clients/typescript/package.json", "clients/typescript/package-lock.json"):
        yield path, json.loads(_read_text(root, path))["version"]
    server = read_server_manifest(root)
    yield from (("server.json", item["version"]) for item in (server, *server["packages"]))


def read_server_manifest(root: Path = ROOT) -> dict[str, Any]:
    """Return the parsed server.json."""
    manifest: dict[str, Any] = json.loads(_read_text(root, "server.json"))
    return manifest


def read_changelog_section(version: str, root: Path = ROOT) -> str:
    """Return the changelog section of a version without its heading; empty if there is none."""
    pattern = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    match = re.search(pattern, _read_text(root, _CHANGELOG), re.MULTILINE | re.DOTALL)
    return match[1].strip() if match else ""


def find_unreleased_pages(root: Path = ROOT) -> Iterator[Path]:
    """Yield the pages that have a passage that applies only before the first release."""
    for folder in (root, root / "docs", root / "website"):
        yield from (page for page in sorted(folder.glob("*.md")) if _PASSAGE.search(page.read_text("utf-8")))


def update_pages(root: Path = ROOT) -> None:
    """Replace passages for unreleased versions with the passages that apply after the first release."""
    for page in find_unreleased_pages(root):
        page.write_text(_PASSAGE.sub(r"\1", page.read_text("utf-8")), "utf-8")


def find_release_errors(tag: str | None, root: Path = ROOT) -> Iterator[str]:
    """Yield a message for each problem that prevents a release."""
    declared = list(read_versions(root))
    version = declared[0][1]
    yield from (f"{path}: version {other}, expected {version}" for path, other in declared if other != version)
    name = read_server_manifest(root)["name"]
    if f"<!-- mcp-name: {name} -->" not in _read_text(root, "README.md"):
        yield f"README.md: `<!-- mcp-name: {name} -->` is missing; the MCP registry verifies ownership with it"
    if f'io.modelcontextprotocol.server.name="{name}"' not in _read_text(root, "Dockerfile"):
        yield f"Dockerfile: the label `io.modelcontextprotocol.server.name` is not {name}"
    if tag is None:
        return
    if tag != f"v{version}":
        yield f"tag {tag}: expected v{version}"
    for page in find_unreleased_pages(root):
        name = page.relative_to(root)
        yield f"{name}: a passage is for the time before the first release; run: python scripts/release.py pages"
    if not read_changelog_section(version, root):
        yield f"{_CHANGELOG}: the section `## [{version}] - YYYY-MM-DD` is missing"


def _read_text(root: Path, path: str) -> str:
    return (root / path).read_text("utf-8")


def _check_release(tag: str | None) -> int:
    errors = list(find_release_errors(tag))
    print("\n".join(errors), end="\n" if errors else "", file=sys.stderr)
    if not errors:
        version = next(read_versions())[1]
        changes = "" if read_changelog_section(version) else "; the changelog has no section for it yet"
        print(f"{len(list(read_versions()))} declarations of version {version} agree{changes}")
    return 1 if errors else 0


def _check_server_manifest(schemas: Path) -> int:
    server = read_server_manifest()
    file = schemas / f"{server['$schema'].split('/')[-2]}.json"
    jsonschema.Draft7Validator(json.loads(file.read_text("utf-8"))).validate(server)
    print(f"server.json is valid against the registry schema of {file.stem}")
    return 0


def main() -> int:
    """Run the command that the command line selects; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("tag", nargs="?")
    commands.add_parser("notes").add_argument("tag")
    commands.add_parser("pages")
    commands.add_parser("registry").add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "check":
        return _check_release(arguments.tag)
    if arguments.command == "pages":
        update_pages()
        return 0
    if arguments.command == "registry":
        return _check_server_manifest(arguments.folder)
    print(read_changelog_section(arguments.tag.removeprefix("v")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
