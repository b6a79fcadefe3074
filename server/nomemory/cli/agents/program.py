"""Path and name of the `nomemory` program, for commands that are shown to the user."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

CACHE_WARNING: Final = (
    "NoMemory runs from a cache. If the cache is cleared, agents cannot start it. Install NoMemory first."
)


def get_program_path() -> str:
    """Return the path of this program, quoted for a shell.

    The path is absolute, because agents may have another PATH.
    """
    return shlex.quote(str(_find_program()))


def get_program_name() -> str:
    """Return the name that runs this program in a shell: `nomemory` if it is on the PATH, otherwise its path."""
    on_path = shutil.which("nomemory")
    return "nomemory" if on_path and Path(on_path).absolute() == _find_program() else get_program_path()


def runs_from_cache() -> bool:
    """Return whether a tool such as `uvx` or `pipx run` runs this program from its cache."""
    return "cache" in "/".join(Path(sys.executable).parts).lower()


def _find_program() -> Path:
    return Path(shutil.which(sys.argv[0]) or sys.argv[0]).absolute()
