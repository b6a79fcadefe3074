"""Read and search the allocated parts of sparse files.

The vector engine preallocates its files a hundred times larger than their content.
"""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_ZEROS = bytes(4096)


def find_in_files(directory: Path, needles: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the needles that the files of a directory contain, each with the relative path of its file.

    Read the files in a separate process. A process that closes a SQLite file loses its locks on the file, and the files
    may be those of a server that runs in the process of the test.
    """
    command = [sys.executable, "-I", __file__, str(directory)]
    done = subprocess.run(command, input=pickle.dumps(list(needles)), stdout=subprocess.PIPE, check=True)
    contained: list[tuple[str, bytes]] = pickle.loads(done.stdout)  # noqa: S301 - written by this module
    return contained


def allocated_bytes(path: Path) -> bytes:
    """Return the content of a file without holes and without pages of zeros.

    Raises:
        OSError: The file cannot be read, or the file system does not report holes.
    """
    with path.open("rb", buffering=0) as file:
        return b"".join(_parts(file.fileno())).replace(_ZEROS, b"")


def _parts(descriptor: int) -> Iterator[bytes]:
    end = 0
    try:
        while True:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, start, os.SEEK_HOLE)
            yield os.pread(descriptor, end - start, start)
    except OSError as error:
        if error.errno != errno.ENXIO:  # ENXIO: no data follows
            raise


def _search(directory: Path, needles: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    for folder, _, names in os.walk(directory):
        for file in (Path(folder, name) for name in names):
            with suppress(FileNotFoundError):  # the file was deleted meanwhile
                content = allocated_bytes(file)
                yield from ((str(file.relative_to(directory)), needle) for needle in needles if needle in content)


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(list(_search(Path(sys.argv[1]), pickle.load(sys.stdin.buffer)))))  # noqa: S301
