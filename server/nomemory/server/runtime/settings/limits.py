"""What a request may ask for, and how much may wait."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import SettingsGroup


class LimitSettings(SettingsGroup):
    """The contract's limits and defaults."""

    heading: ClassVar[str] = "The contract's limits"

    max_page_size: int = Field(500, ge=1, description="Largest page size.")
    max_top_k: int = Field(200, ge=1, description="Largest `top_k`.")
    max_batch_messages: int = Field(1000, ge=1, description="Most messages in one write batch.")
    max_content_bytes: int = Field(262_144, ge=1, description="Longest content, in bytes of UTF-8.")
    max_query_chars: int = Field(32_000, ge=1, description="Longest query text.")
    max_request_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="Largest request message.")
    max_response_bytes: int = Field(3_000_000, ge=1024, description="Size at which a reply ends early.")


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
