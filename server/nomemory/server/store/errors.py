"""Reasons why a message log cannot be used."""

from __future__ import annotations

from nomemory.server.runtime.startup_errors import CannotStartError


class LogUnusableError(CannotStartError):
    """The log cannot be used; the text says what to do."""


class LogVersionError(CannotStartError):
    """The log was written by a version of the server that this one does not know."""
