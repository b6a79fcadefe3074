"""`nomemory serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from nomemory.cli.configuration import LOG_LEVELS, load_settings
from nomemory.server.runtime.settings.group import PREFIX
from nomemory.server.runtime.stderr import reserve_stderr_for_logs
from nomemory.server.runtime.wiring.garbage_collection import pause_garbage_collection

_TERMINAL_DEFAULTS: Final[Mapping[str, str | bool]] = {"log_level": "warning", "audit_log": False}
"""Default settings if standard error is a terminal."""
_BLAS_THREADS: Final = ("OPENBLAS_NUM_THREADS", "1")
"""Keeps NumPy from starting threads, which takes 0.1 s and does not pay off for the small arrays of the server."""


@click.command("serve")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory for the message log and the indexes.",
)
@click.option("--listen", metavar="HOST:PORT", help="gRPC address; port 0 selects a free port.")
@click.option("--http", "http_listen", metavar="HOST:PORT", help="HTTP/JSON address. Default: no HTTP server.")
@click.option("--inspect", "inspector", is_flag=True, default=None, help="Serve the read-only web inspector over HTTP.")
@click.option(
    "--metrics",
    "metrics_listen",
    metavar="HOST:PORT",
    help="Metrics address. Metrics are also available at the --http address.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Minimum log level.")
@click.option(
    "--recall-only", is_flag=True, help="Serve only recalls. The messages are read from the server given with --query."
)
@click.option(
    "--query", "upstream", metavar="HOST:PORT", help="With --recall-only: the server from which messages are read."
)
def run_serve(*, recall_only: bool, upstream: str | None, **options: Path | str | bool | None) -> None:
    """Run the server.

    All settings can be set with environment variables (docs/settings.md); options override them. Logs are JSON, unless
    standard error is a terminal: then only warnings are logged, as plain text, and the audit log is off.
    """
    if recall_only != bool(upstream):
        raise click.UsageError("--recall-only and --query must be used together.")
    if sys.stderr.isatty():
        options |= {name: default for name, default in _TERMINAL_DEFAULTS.items() if _is_unset(name, options)}
    settings = load_settings(recall_upstream=upstream, **options)
    os.environ.setdefault(*_BLAS_THREADS)
    with reserve_stderr_for_logs(settings.server.log_level):
        with pause_garbage_collection():
            from nomemory.cli import serve_runner  # noqa: PLC0415 - the engines load only in the process that serves

        serve_runner.run_server(settings)


def _is_unset(name: str, options: Mapping[str, object]) -> bool:
    return options.get(name) is None and f"{PREFIX}{name.upper()}" not in os.environ
