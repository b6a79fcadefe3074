"""The way in which the tests of the command line run it."""

from __future__ import annotations

from cli.conftest import run

__all__ = ["run"]
