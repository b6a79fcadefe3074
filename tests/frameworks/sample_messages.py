"""What the user of these tests and another one have said."""

from __future__ import annotations

PEANUTS = "I am allergic to peanuts."

CANARY = "I am allergic to canaries."
