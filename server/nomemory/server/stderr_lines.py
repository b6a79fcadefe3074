"""Turns what processes write to standard error into JSON lines: `python stderr_lines.py [--whole]`.

It is a process of its own, so that the last words of one that crashes are not lost. It reads standard input to its end,
which comes when all the processes that write there are gone. It imports nothing of ours, and so starts in no time.

C libraries, the interpreter and panics write there. Their words may quote a message or come from a stranger: what is
shown are their places and kinds, and the rest only with `--whole`. A line break in JSON is an escape, so no text can
pass for a line of the log.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

LINE_MAX: Final = 8192
"""Longest line, in bytes; a longer one becomes several."""

_CHUNK: Final = 65_536
_PLACES: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (
        r"^(thread '[\w:.<>-]{0,64}'( \(\d+\))? )?panicked at [\w./\\-]+:\d+:\d+:?",  # Rust
        r'^\s*File "[^"\n]{1,512}", line \d+(,)? in [\w.<>]+$',  # a traceback, a fatal error
        r"^[\w./\\-]{1,512}:\d+: \w{0,64}Warning(?=:)",
        r"^Traceback \(most recent call last\):$",
        r"^(Current thread|Thread) 0x[0-9a-f]+( \[[^\]]{0,64}\])? \(most recent call first\):$",
        r"^Fatal Python error: [A-Za-z_ -]{1,64}",
        r"^[\w.]{0,64}(Error|Exception|Exit|Interrupt|Warning|Panic)(?=:|$)",
        r"^[DIWEF]\d{4} [\d:.]+\s+\d+ [\w./-]+:\d+\]",  # gRPC, Abseil
        r"^(malloc|free|realloc)\(\)|^corrupted size|^double free|^terminate called",
    )
)


def place_in(line: str) -> str:
    """Return what of a line says where something happened and of what kind; empty where nothing does."""
    return next((found[0] for form in _PLACES if (found := form.match(line))), "")


def record(line: bytes, *, whole: bool) -> bytes:
    """Return the JSON line for a line."""
    text = line.decode(errors="backslashreplace").rstrip("\r")
    shown = text if whole else place_in(text)
    entry = {"event": "stderr", "text": shown, "bytes": len(line), "level": "warning"}
    return json.dumps(entry | {"timestamp": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}).encode() + b"\n"


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Read lines to the end, without blank ones. What has no line break at the end is a line, too."""
    rest = b""
    while chunk := os.read(descriptor, _CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield from _pieces(line)
        if len(rest) > LINE_MAX:
            yield from _pieces(rest)
            rest = b""
    yield from _pieces(rest)


def _pieces(line: bytes) -> Iterator[bytes]:
    if line.strip():
        yield from (line[start : start + LINE_MAX] for start in range(0, len(line), LINE_MAX))


def main(*, whole: bool) -> None:
    """Work until nobody can write any more. Signals are for the processes that do."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for line in lines_of(sys.stdin.fileno()):
        os.write(sys.stdout.fileno(), record(line, whole=whole))


if __name__ == "__main__":
    main(whole="--whole" in sys.argv)
