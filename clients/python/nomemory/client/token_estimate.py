"""How many tokens a text takes in a prompt: an estimate that needs no tokenizer and is seldom too low."""

from __future__ import annotations

from typing import Final

_ASCII_CHARS: Final = 3
"""Characters of a token. English prose has about four; ids, dates and JSON, which a block is full of, have fewer."""


def tokens(text: str) -> int:
    """Estimate: a token for each character beyond ASCII, such as a Chinese one, and one for every 3 of ASCII."""
    plain = len(text.encode("ascii", "ignore"))
    return len(text) - plain + -(-plain // _ASCII_CHARS)
