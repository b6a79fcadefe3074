"""A lexical index of each engine."""

from __future__ import annotations

import pytest
from lexical.engine import ENGINES, Engine


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return how to open an index."""
    return ENGINES[request.param]
