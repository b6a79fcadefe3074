"""Fixtures: a server with the inspector and the sample messages, and a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from inspector.inspector_page import Inspected, write_sample
from web.chromium import MISSING, PROGRAM
from web.devtools import Browser, driven
from web.http_server import settings_of

from running_server import started


@pytest.fixture(scope="session")
def inspected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A server without credentials and without an embedder, with the sample messages and a second skill."""
    skills = tmp_path_factory.mktemp("skills")
    (skills / "tea").mkdir()
    (skills / "tea" / "SKILL.md").write_text("---\nname: tea\ndescription: Finds tea.\n---\nFinds tea.\n", "utf-8")
    settings = settings_of(tmp_path_factory.mktemp("inspector"), inspector=True, recall_skill_dirs=str(skills))
    with started(settings) as server:
        write_sample(server)
        yield Inspected(server)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A browser. Without one, the test is skipped."""
    if not PROGRAM:
        pytest.skip(MISSING)
    with driven() as running:
        yield running
