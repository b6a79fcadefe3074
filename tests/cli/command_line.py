"""Constants for running the command line."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

PLAIN = {"COLUMNS": "88", "NOMEMORY_TARGET": None, "NOMEMORY_USER": None, "FORCE_COLOR": None, "NO_COLOR": None}

Run = Callable[..., Result]
