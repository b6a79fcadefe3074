"""Search the files of a running server for byte strings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

from allocated_bytes import allocated_bytes


def find_in_files(directory: Path, byte_strings: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the byte strings that the files of a directory contain, each with the relative path of its file.

    The files are read in another process. A process that closes a SQLite file releases its locks on the file, and the
    server may run in the process of the test.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_find, directory, byte_strings).result()


def _find(directory: Path, byte_strings: Sequence[bytes]) -> list[tuple[str, bytes]]:
    found_strings = list[tuple[str, bytes]]()
    for folder, _, names in os.walk(directory):
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # the file was deleted meanwhile
                content = allocated_bytes(file)
                path = str(file.relative_to(directory))
                found_strings += [(path, byte_string) for byte_string in byte_strings if byte_string in content]
    return found_strings
