"""Read the deployment files."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "nomemory"
VARIABLE = re.compile(r"\b(?:NOMEMORY|OPENAI)_[A-Z0-9_]*[A-Z0-9]\b")
VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def loaded(path: Path) -> Any:  # noqa: ANN401 - a file of somebody else's form
    """Load a YAML file."""
    return yaml.safe_load(path.read_text("utf-8"))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the last stage of the Dockerfile with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    stages = [at for at, line in enumerate(lines) if line.startswith("FROM ")]
    return [
        (word, operands.strip()) for word, _, operands in (line.partition(" ") for line in lines[stages[-1] :] if line)
    ]


def instruction(name: str) -> str:
    """Return the arguments of the only instruction with a name."""
    [operands] = [operands for word, operands in instructions() if word == name]
    return operands


def pairs(name: str) -> dict[str, str]:
    """Return the names and values of an instruction such as ENV."""
    return dict(item.split("=", 1) for item in shlex.split(instruction(name)))


def unit(path: Path) -> dict[str, list[str]]:
    """Return the settings of a systemd unit, each with all of its values in order."""
    options: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            options.setdefault(name, []).append(value)
    return options


def environment(path: Path) -> dict[str, str]:
    """Return the variables that a unit sets."""
    return dict(item.split("=", 1) for line in unit(path)["Environment"] for item in line.split())


def environment_of_service(file: str, service: str) -> dict[str, str]:
    """Return the variables of a service of a compose file."""
    environment: dict[str, str] = loaded(DEPLOY / file)["services"][service]["environment"]
    return environment
