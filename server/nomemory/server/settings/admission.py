"""How the reads of many share a server (docs/operating.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nomemory.server.settings.group import SettingsGroup, variables


class AdmissionSettings(SettingsGroup):
    """How the reads of many share a server. Each bound holds in each of its processes."""

    model_config = variables("reads_")
    heading: ClassVar[str] = "Admission of reads"

    running_max: int = Field(
        2, ge=1, description="Expensive reads (searches, recalls, counts) that take turns at once."
    )
    rest_s: float = Field(
        0.001, ge=0, description="How long the event loop is left to short calls after each 3 ms of expensive reads."
    )
    rest_max_s: float = Field(0.02, ge=0, description="How much longer that is, at most, while calls keep coming.")
    user_max: int = Field(32, ge=1, description="Expensive reads of one user in hand; more are refused.")
    caller_max: int = Field(256, ge=1, description="The same of one caller: an API key, a certificate, a token.")
    total_max: int = Field(1024, ge=1, description="The same of all.")
    user_per_s: float = Field(0.0, ge=0, description="Reads of one user a second, short ones, too. 0: no limit.")
    caller_per_s: float = Field(0.0, ge=0, description="The same of one caller. 0: no limit.")
    retry_s: float = Field(1.0, gt=0, description="After this a refused read may be tried again; the reply says so.")
    refusal_s: float = Field(
        1.0, ge=0, description="How long a refusal is held back: who does not wait is made to, without cost."
    )
    refusals_max: int = Field(1000, ge=0, description="Most refusals that are held back; more are sent at once.")
    embeddings_max: int = Field(
        0, ge=0, description="Query texts that are with the embedder at once. 0: 2 for `local`, 64 for others."
    )
    vectors_max: int = Field(8, ge=1, description="Searches that are with the vector index at once.")
