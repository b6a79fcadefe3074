"""What an export wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exported:
    """A file, and how many messages of how many users are in it."""

    file: str
    users: int
    messages: int
