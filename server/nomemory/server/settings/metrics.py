"""Figures for Prometheus (docs/metrics.md)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, SecretStr

from nomemory.server.settings.group import SettingsGroup, variables


class MetricsSettings(SettingsGroup):
    """Figures for Prometheus (docs/metrics.md)."""

    model_config = variables("metrics_")
    heading: ClassVar[str] = "Metrics"

    listen: str = Field(
        "",
        description="HOST:PORT to serve `/metrics` on by itself; port 0 picks a free one. Empty: it is served where "
        "HTTP is, and nowhere else.",
        validation_alias="NOMEMORY_METRICS",
    )
    token: SecretStr | None = Field(
        None,
        min_length=16,
        description="Bearer token of whoever scrapes, at least 16 characters; good for `/metrics` alone. Unset: a "
        "server that checks credentials wants a key with the scope `admin`.",
    )
    connections_max: int = Field(
        16, ge=1, le=128, description="Most connections at that port; further ones are closed."
    )
    collect_s: float = Field(
        1.0, gt=0, description="How long the processes of a server may take to say what they counted."
    )
    lag_s: float = Field(1.0, gt=0, description="How often it is noted how far the log is, to know how old a lag is.")
