"""Read the token usage of a chat completion."""

from __future__ import annotations

from typing import Final

from nomemory.recall.model.model_reading import TokenUsage

_MAX_TOKENS: Final = 10_000_000
"""Maximum plausible number of tokens of a request. Higher counts are ignored, so that a sum fits into 32 bits."""


def read_token_usage(reply: object) -> TokenUsage | None:
    """Return the token counts in an unvalidated response; None if the endpoint does not report them."""
    usage = getattr(reply, "usage", None)
    prompt, completion = _read_token_count(usage, "prompt_tokens"), _read_token_count(usage, "completion_tokens")
    if prompt is None and completion is None:
        return None
    cached = _read_token_count(getattr(usage, "prompt_tokens_details", None), "cached_tokens")
    return TokenUsage(prompt or 0, completion or 0, cached or 0)


def _read_token_count(numbers: object, name: str) -> int | None:
    count = getattr(numbers, name, None)
    return count if type(count) is int and 0 <= count <= _MAX_TOKENS else None
