"""Fixtures for the message log of each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from log.engine import ENGINES, Engine, Log, PostgresEngine, open_sqlite_log


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return a factory of logs."""
    if request.param == "sqlite":
        return open_sqlite_log
    return PostgresEngine(request.getfixturevalue("postgres"))


@pytest.fixture
async def log(engine: Engine, tmp_path: Path) -> AsyncIterator[Log]:
    """Open an empty log."""
    log = await engine(tmp_path)
    yield log
    await log.close()
