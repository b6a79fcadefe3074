"""The checks of `nomemory doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from nomemory.cli.connection import Target
from nomemory.cli.doctor.chat_model import check_chat_model
from nomemory.cli.doctor.data import check_data, check_postgres
from nomemory.cli.doctor.installation import check_embedder, check_sqlite, check_storage
from nomemory.cli.doctor.server import check_server
from nomemory.cli.doctor.vectors import check_vectors
from nomemory.cli.output import CheckResult
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings


def run_checks(settings: Settings, target: Target) -> Iterator[CheckResult]:
    """Check the machine, the data and the server, in this order."""
    yield check_sqlite()
    yield from check_storage(settings.server.data)
    if settings.server.database_url is None:
        checks = list(check_data(DataDirectory(settings.server.data)))
        yield from checks
        if not any(check.state == "fail" for check in checks):  # a damaged message log cannot be compared
            yield from check_vectors(settings)
    else:
        yield from check_postgres(settings)
    yield check_embedder(settings)
    yield from check_chat_model(settings)
    yield from check_server(target)
