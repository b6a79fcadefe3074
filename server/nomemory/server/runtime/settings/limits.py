"""Settings for request limits and admission."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.runtime.settings.group import SettingsGroup


class LimitSettings(SettingsGroup):
    """Settings that limit requests and responses."""

    heading: ClassVar[str] = "API limits"

    max_page_size: int = Field(500, ge=1, description="Maximum `page_size` of a list request.")
    max_top_k: int = Field(200, ge=1, description="Maximum `top_k` of a search request.")
    max_batch_messages: int = Field(1000, ge=1, description="Maximum number of messages in a write request.")
    max_content_bytes: int = Field(
        262_144, ge=1, description="Maximum length of a message's content, in bytes of UTF-8."
    )
    max_query_chars: int = Field(32_000, ge=1, le=32_000, description="Maximum length of a query text, in characters.")
    max_request_bytes: int = Field(16 * 1024 * 1024, ge=1024, description="Maximum size of a request, in bytes.")
    max_response_bytes: int = Field(
        3_000_000,
        ge=1024,
        description="Size at which a page of results ends early, in bytes. The default is below gRPC's default "
        "limit of 4 MB.",
    )


class AdmissionSettings(SettingsGroup):
    """Settings of the admission of expensive reads: searches, recalls, counts and exports."""

    heading: ClassVar[str] = "Expensive reads"

    expensive_read_concurrency: int = Field(
        2, ge=1, description="Maximum number of expensive reads that run at the same time. Further reads are queued."
    )
    max_inflight_reads_per_user: int = Field(
        32,
        ge=1,
        description="Maximum number of running and queued expensive reads per user. Further reads fail with "
        "OVERLOADED.",
    )
    max_inflight_reads_per_caller: int = Field(
        256,
        ge=1,
        description="Maximum number of running and queued expensive reads per caller (API key, certificate or "
        "token). Further reads fail with OVERLOADED.",
    )
