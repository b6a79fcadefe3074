"""A way into a server: how calls are carried there, and what only those can try who come that way."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from proofs.isolation.contract import Metadata
from proofs.isolation.judge import Judge
from proofs.isolation.transport import Open
from proofs.isolation.world import Attacker, World


@dataclass(frozen=True, slots=True)
class Form:
    """Bytes that no client library would send.

    Attributes:
        unheard: what the server must not answer; empty: there is nothing of that kind.
    """

    name: str
    sent: bytes
    unheard: bytes = b""


Hold = Callable[[socket.socket], None]
"""Sends on a connection what makes the server hold something, and reads nothing."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way into a server.

    Attributes:
        settings: what a server of one's own needs for it.
        forms: makes bytes for the port, for a server at HOST:PORT.
        holds: what to do on connections that are held, by names, as an attacker at HOST:PORT.
        drawn: the attack with so many requests that only this way has, with a seed; None: there are none.
    """

    name: str
    open: Open
    settings: Mapping[str, str]
    forms: Callable[[str, World, random.Random], Iterator[Form]]
    holds: Callable[[str, Metadata, Attacker], Mapping[str, Hold]]
    drawn: Callable[[str, World, Judge, int, int], None] | None = None
