"""Read the allocated parts of sparse files.

The vector engine preallocates its files a hundred times larger than their content.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

_ZEROS = bytes(4096)


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
