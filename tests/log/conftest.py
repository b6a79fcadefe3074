"""A log of each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from log.engine import ENGINES, Engine, Log


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return how to open a log."""
    return ENGINES[request.param]


@pytest.fixture
async def log(engine: Engine, tmp_path: Path) -> AsyncIterator[Log]:
    """Open an empty log."""
    log = await engine(tmp_path)
    yield log
    await log.close()
