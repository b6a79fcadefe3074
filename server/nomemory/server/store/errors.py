"""Reasons why a message log cannot be used."""

from __future__ import annotations

from nomemory.server.runtime.startup_errors import StartupError


class LogUnusableError(StartupError):
    """The log cannot be used; the text says what to do."""


class LogVersionError(StartupError):
    """The log was written by a version of the server that this one does not know."""
