"""What a release has to agree on.

python scripts/release.py check [TAG]        one version everywhere; TAG is that version, and the changelog has it
python scripts/release.py notes TAG          prints the changelog's section of a version, for people
python scripts/release.py registry FOLDER    validates server.json by the schemas of the MCP registry that are in FOLDER
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
_IN_TEXT = (
    ("pyproject.toml", r'"nomemory-client==([^"]+)"'),
    ("Dockerfile", r'image\.version="([^"]+)"'),
    ("deploy/compose.yaml", r"image: nomemory:(\S+)"),
    ("deploy/compose.cluster.yaml", r"image: nomemory:(\S+)"),
    ("docs/deployment.md", r"--tag nomemory:(\S+)"),
    ("clients/java/pom.xml", r"<artifactId>nomemory-client</artifactId>\s*<version>([^<]+)<"),
    ("clients/java/README.md", r"<artifactId>nomemory-client</artifactId>\s*<version>([^<]+)<"),
)


def versions(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Yield each place that says a version, and which."""
    for path in ("pyproject.toml", "clients/python/pyproject.toml"):
        yield path, tomllib.loads(_text(root, path))["project"]["version"]
    for path, pattern in _IN_TEXT:
        yield from ((path, found) for found in re.findall(pattern, _text(root, path)) or ["none"])
    chart = yaml.safe_load(_text(root, "deploy/helm/nomemory/Chart.yaml"))
    yield from (("Chart.yaml", chart[name]) for name in ("version", "appVersion"))
    for path in ("clients/typescript/package.json", "clients/typescript/package-lock.json"):
        yield path, json.loads(_text(root, path))["version"]
    server = described(root)
    yield from (("server.json", item["version"]) for item in (server, *server["packages"]))


def described(root: Path = ROOT) -> dict[str, Any]:
    """Return what server.json says."""
    read: dict[str, Any] = json.loads(_text(root, "server.json"))
    return read


def section(version: str, root: Path = ROOT) -> str:
    """Return the changelog's section of a version, without its heading; empty: it has none."""
    pattern = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)"
    found = re.search(pattern, _text(root, _CHANGELOG), re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def faults(tag: str | None, root: Path = ROOT) -> Iterator[str]:
    """Yield what stands against a release, in words."""
    said = list(versions(root))
    version = said[0][1]
    yield from (f"{path} says {other}, pyproject.toml says {version}" for path, other in said if other != version)
    name = described(root)["name"]
    if f"<!-- mcp-name: {name} -->" not in _text(root, "README.md"):
        yield f"README.md does not say `mcp-name: {name}`, by which the MCP registry knows whose the package is"
    if f'io.modelcontextprotocol.server.name="{name}"' not in _text(root, "Dockerfile"):
        yield f"the Dockerfile does not name {name}"
    if tag is None:
        return
    if tag != f"v{version}":
        yield f"the tag is {tag}, the version {version}"
    if not section(version, root):
        yield f"{_CHANGELOG} has no section `## [{version}] - YYYY-MM-DD`"


def _text(root: Path, path: str) -> str:
    return (root / path).read_text("utf-8")


def _check(tag: str | None) -> int:
    found = list(faults(tag))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    if not found:
        version = next(versions())[1]
        changes = "" if section(version) else ", which the changelog has no section of yet"
        print(f"{len(list(versions()))} places say {version}{changes}")
    return 1 if found else 0


def _registry(schemas: Path) -> int:
    server = described()
    file = schemas / f"{server['$schema'].split('/')[-2]}.json"
    jsonschema.Draft7Validator(json.loads(file.read_text("utf-8"))).validate(server)
    print(f"server.json is of the registry's schema of {file.stem}")
    return 0


def main() -> int:
    """Do what the arguments say; return the code to exit with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("tag", nargs="?")
    commands.add_parser("notes").add_argument("tag")
    commands.add_parser("registry").add_argument("folder", type=Path)
    asked = parser.parse_args()
    if asked.command == "check":
        return _check(asked.tag)
    if asked.command == "registry":
        return _registry(asked.folder)
    print(section(asked.tag.removeprefix("v")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
