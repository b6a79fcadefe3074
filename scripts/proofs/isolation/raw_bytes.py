"""Attacks on the port itself: bytes that no client library would send, whole and damaged."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from proofs.isolation.http2 import connect
from proofs.isolation.judge import Judge
from proofs.isolation.way import Form

_FIRST_S, _LISTEN_S = 0.1, 0.2
_TIMES = 4
_MOST = 1 << 16
PATH_THAT_IS_NO_TEXT = "a path that is not UTF-8"
FORGED_LOG_LINE = '{"event": "forged-by-the-isolation-suite"}'


def attack_with_bytes(
    target: str, forms: Sequence[Form], judge: Judge, wanted: Callable[[str], bool], times: int = _TIMES
) -> None:
    """Send each form of bytes that is wanted, by its name, so many times; the judge sees what comes back."""
    for form in forms:
        for _ in range(times if wanted(form.name) else 0):
            told = answered(target, form.sent)
            judge.see_answer(f"bytes on the port: {form.name}", told)
            if form.unheard and form.unheard in told:
                judge.found("smuggled", f"bytes on the port: {form.name}")


def attack_with_damage(target: str, forms: Sequence[Form], judge: Judge, connections: int, seed: int) -> None:
    """Send forms of bytes with some of them changed, on so many connections."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    for _ in range(connections):
        form = chance.choice(forms)
        told = answered(target, _damaged(form.sent, chance))
        judge.see_answer(f"bytes on the port: {form.name}, damaged", told)


def answered(target: str, sent: bytes) -> bytes:
    """Send bytes on a connection of their own; return what comes back before long."""
    told = b""
    with suppress(OSError), connect(target) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(sent)
        connection.settimeout(_FIRST_S)  # a connection that ends at once may not be looked at
        told += _heard(connection)
        connection.settimeout(_LISTEN_S)
        connection.shutdown(socket.SHUT_WR)
        told += _heard(connection)
    return told


def _heard(connection: socket.socket) -> bytes:
    """Return what comes until there is nothing for a while, or too much."""
    told = b""
    with suppress(TimeoutError):
        while len(told) < _MOST and (chunk := connection.recv(_MOST)):
            told += chunk
    return told


def _damaged(sent: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(sent)
    for _ in range(chance.randint(1, 20)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)
