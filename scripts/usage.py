"""What a script answers to --help, where it takes no options."""

from __future__ import annotations

import sys


def show_help(text: str | None) -> None:
    """Print what the script is for and end it, if that was asked for."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(f"usage: {sys.argv[0]}\n\n{text}")
        raise SystemExit(0)
