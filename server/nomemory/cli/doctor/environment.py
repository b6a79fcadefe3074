"""Checks of what is installed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

from nomemory.cli.check import Check

_PYTHON: Final = (3, 11)
_SQLITE: Final = (3, 37)
_PACKAGES: Final = ("nomemory", "grpcio", "protobuf", "tantivy", "qdrant-edge-py")


def check_python() -> Check:
    """Check the interpreter's version."""
    found = sys.version_info
    version = f"{found.major}.{found.minor}.{found.micro}"
    if found < _PYTHON:
        return Check("Python", "fail", version, f"Use Python {_dotted(_PYTHON)} or newer.")
    return Check("Python", "ok", version)


def check_packages() -> Iterator[Check]:
    """Check the packages that the server cannot do without."""
    for package in _PACKAGES:
        try:
            yield Check(package, "ok", metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Check(package, "fail", "not installed", "Install again: pip install nomemory")


def check_sqlite() -> Check:
    """Check the version of the SQLite library that Python is linked to."""
    if sqlite3.sqlite_version_info < _SQLITE:
        advice = f"Use a Python that is built with SQLite {_dotted(_SQLITE)} or newer."
        return Check("SQLite", "fail", sqlite3.sqlite_version, advice)
    return Check("SQLite", "ok", sqlite3.sqlite_version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
