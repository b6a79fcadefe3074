"""The messages of the tested user and of another user."""

from __future__ import annotations

PEANUTS = "I am allergic to peanuts."

CANARY = "I am allergic to canaries."
