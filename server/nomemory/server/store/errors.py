"""Errors that occur when a message log is opened."""

from __future__ import annotations

from nomemory.server.runtime.startup_errors import StartupError


class LogUnusableError(StartupError):
    """The message log cannot be opened. The error message states the cause and what to do."""


class LogVersionError(StartupError):
    """The schema of the message log is not supported by this version of the server."""
