"""Fixtures with a lexical index of each engine."""

from __future__ import annotations

import pytest
from lexical.engine import ENGINES, Engine, open_tantivy_index
from lexical.postgres_index import engine_of


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Return a function that opens an index."""
    if request.param == "tantivy":
        return open_tantivy_index
    return engine_of(request.getfixturevalue("postgres"))


@pytest.fixture(scope="session")
def is_remote(engine: Engine) -> bool:
    """Return whether every call is a round trip."""
    return engine is not open_tantivy_index
