"""Checks of the vectors on a Qdrant server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from nomemory.cli.check import Check
from nomemory.server.composition.qdrant_check import look_at_collection
from nomemory.server.embedding.factory import EmbedderSettingsError
from nomemory.server.faults import Fault
from nomemory.server.settings import Settings

_NAME = "Vectors on Qdrant"


def check_qdrant(settings: Settings) -> Iterator[Check]:
    """Check that the Qdrant server of the settings answers, and that its payload indexes know all points."""
    url = settings.vector.qdrant_url
    if url is None:
        return
    try:
        found = asyncio.run(look_at_collection(settings, url))
    except (Fault, EmbedderSettingsError) as error:
        yield Check(_NAME, "fail", f"cannot be looked at: {error}", "See to the server, or to NOMEMORY_QDRANT_URL.")
        return
    if found is None:
        yield Check(_NAME, "skip", "no collection of this embedder yet")
    elif found.lacking:
        finding = f"{found.name}: the index of {', '.join(found.lacking)} lacks points; searches miss messages"
        yield Check(_NAME, "fail", finding, "A server builds it anew when it starts.")
    else:
        yield Check(_NAME, "ok", f"{found.name}: {found.points:,} points, which every payload index knows")
