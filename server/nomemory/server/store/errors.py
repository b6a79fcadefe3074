"""Errors of opening a message log."""

from __future__ import annotations

from nomemory.server.runtime.startup_errors import StartupError


class LogUnusableError(StartupError):
    """The log cannot be opened. The message states the cause and the remedy."""


class LogVersionError(StartupError):
    """The schema of the log is not supported by this version of the server."""
