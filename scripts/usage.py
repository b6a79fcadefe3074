"""Help output for scripts without options."""

from __future__ import annotations

import sys


def show_help(text: str | None) -> None:
    """Print a help text and exit, if the command line has -h or --help."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(f"usage: {sys.argv[0]}\n\n{text}")
        raise SystemExit(0)
