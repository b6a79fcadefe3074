"""The base class of every public exception of the recall package."""

from __future__ import annotations


class RecallError(Exception):
    """A recall failed. Handle errors by class or `code`; the message is for people."""
