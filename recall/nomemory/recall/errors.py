"""The base class of every public exception of the recall package."""

from __future__ import annotations


class RecallError(Exception):
    """A recall, or a part of one, cannot go on. The text is for people; decide on the class or its `code`."""
