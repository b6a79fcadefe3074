"""A server with the inspector and the sample, and a browser that looks at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from inspector.inspected import Inspected, write_sample
from web.chromium import MISSING, PROGRAM
from web.devtools import Browser, driven
from web.served import settings_of

from served import started


@pytest.fixture(scope="session")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A server without credentials, which has the sample and searches by words."""
    with started(settings_of(tmp_path_factory.mktemp("inspector"), inspector=True)) as server:
        write_sample(server)
        yield Inspected(server)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser; where there is none, the test is skipped and says so."""
    if not PROGRAM:
        pytest.skip(MISSING)
    with driven() as running:
        yield running
