"""What a request may ask for, and how much may wait."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import Fixed, SettingsGroup


class LimitSettings(SettingsGroup):
    """The contract's limits and defaults."""

    heading: ClassVar[str] = "The contract's limits"

    page_size_default: Fixed[int] = 50
    """Page size where a request sets none."""
    page_size_max: int = Field(500, ge=1, description="Largest page size.")
    top_k_default: Fixed[int] = 20
    """`top_k` where a request sets none."""
    top_k_max: int = Field(200, ge=1, description="Largest `top_k`.")
    neighbors_before_default: Fixed[int] = 20
    """`before` where a request sets none."""
    neighbors_after_default: Fixed[int] = 0
    """`after` where a request sets none."""
    neighbors_max: Fixed[int] = 200
    """Largest `before` and largest `after`."""
    batch_get_max: Fixed[int] = 500
    """Most ids in one BatchGetMessages."""
    write_batch_max: int = Field(1000, ge=1, description="Most messages in one write batch.")
    delete_batch_max: Fixed[int] = 1000
    """Most ids in one DeleteMessages."""
    rejections_max: Fixed[int] = 1000
    """Most rejections that an import lists."""
    content_max_bytes: int = Field(262_144, ge=1, description="Longest content, in bytes of UTF-8.")
    id_max_chars: Fixed[int] = 128
    """Longest user, message, conversation and request id."""
    name_max_chars: Fixed[int] = 128
    """Longest speaker's name."""
    metadata_max_entries: Fixed[int] = 32
    """Most metadata entries of a message."""
    metadata_key_max_chars: Fixed[int] = 64
    """Longest metadata key."""
    metadata_value_max_chars: Fixed[int] = 1024
    """Longest metadata value."""
    retracts_max: Fixed[int] = 32
    """Most messages that a message takes back."""
    query_max_chars: int = Field(2000, ge=1, description="Longest query text.")
    turns_max: Fixed[int] = 20
    """Most turns of a conversation in progress in a recall."""
    turn_max_chars: Fixed[int] = 4_000
    """Longest of these turns."""
    turns_max_chars: Fixed[int] = 16_000
    """Characters of all of them together."""
    query_max_terms: Fixed[int] = 128
    """Most terms and phrases in a query."""
    query_max_depth: Fixed[int] = 16
    """Deepest parentheses in a query."""
    snippet_default_chars: Fixed[int] = 120
    """Snippet length where a request sets none."""
    snippet_max_chars: Fixed[int] = 1000
    """Longest snippet."""
    highlight_max_chars: Fixed[int] = 20_000
    """How far into a content highlights are looked for."""
    highlight_spans_max: Fixed[int] = 200
    """Most spans in the highlight of a message."""
    request_max_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="Largest request message.")
    reply_max_bytes: int = Field(3_000_000, ge=1024, description="Size at which a reply ends early.")


class AdmissionSettings(SettingsGroup):
    """How many expensive reads a process takes in, and how many work at a time."""

    heading: ClassVar[str] = "Expensive reads"

    expensive_read_concurrency: int = Field(
        2, ge=1, description="Expensive reads (searches, scans, counts, exports) that work at a time; others wait."
    )
    max_inflight_reads_per_user: int = Field(
        32, ge=1, description="Expensive reads of one user that work or wait; more are refused."
    )
    max_inflight_reads_per_caller: int = Field(
        256, ge=1, description="The same of one caller: an API key, a certificate, a token."
    )
