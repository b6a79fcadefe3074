"""Capture the log entries of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from unittest.mock import patch

import structlog
from structlog.testing import LogCapture
from structlog.typing import EventDict


@contextmanager
def logged(module: ModuleType) -> Iterator[list[EventDict]]:
    """Collect the log entries of a module, independently of the logging configuration of the process."""
    capture = LogCapture()
    logger = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    with patch.object(module, "_log", logger):
        yield capture.entries
