"""Check of the vector index files against the message log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from nomemory.cli.output import CheckResult
from nomemory.server.faults import Fault
from nomemory.server.runtime.data_directory import DataDirectory, DataDirectoryBusyError, DataDirectoryUnusableError
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.startup_errors import StartupError
from nomemory.server.runtime.wiring.vector_check import check_vector_index

_NAME = "Vector index files"
_REPAIRED_AT_STARTUP = "The server repairs the index at startup."


def check_vectors(settings: Settings) -> Iterator[CheckResult]:
    """Compare the vector index with the message log.

    A running server checks the index itself, so the check is skipped.
    """
    directory = DataDirectory(settings.server.data)
    if not directory.log_file.exists():
        return
    with suppress(DataDirectoryBusyError, DataDirectoryUnusableError), directory.lock():
        yield _compare_with_log(settings)


def _compare_with_log(settings: Settings) -> CheckResult:
    try:
        report = asyncio.run(check_vector_index(settings))
    except (Fault, StartupError) as error:
        return CheckResult(_NAME, "warn", f"unreadable: {error}", _REPAIRED_AT_STARTUP)
    if report is None:
        return CheckResult(_NAME, "skip", "no index for this embedder yet")
    if report.is_consistent:
        return CheckResult(_NAME, "ok", f"{report.points:,} vectors of {report.messages:,} messages match the log")
    finding = (
        f"{report.mismatched:,} of {report.messages:,} messages have wrong or missing vectors; "
        f"{report.orphans:,} deleted messages have vectors"
    )
    return CheckResult(_NAME, "fail", finding, _REPAIRED_AT_STARTUP)
