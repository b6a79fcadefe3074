"""Judges what came of hostile calls: no canary, no status that only a fault of the server's makes, no hang."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence

import grpc

from proofs.isolation.contract import Outcome
from proofs.problem import Problem

_FAULTS = (
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.UNIMPLEMENTED,
)

_DAMAGE = "damaged"
"""Nothing damages this log: a checksum that does not hold is that of somebody else's message."""
_FAULT_OF_HTTP = re.compile(rb"HTTP/1\.1 50[0125] ")


class Judge:
    """Looks at outcomes; may be asked by several threads.

    Attributes:
        problems: what does not hold.
        codes: how often each status was seen.
    """

    def __init__(self, canaries: Sequence[bytes]) -> None:
        self._canaries = canaries
        self._lock = threading.Lock()
        self.problems: list[Problem] = []
        self.codes: Counter[str] = Counter()

    @property
    def calls(self) -> int:
        """Return how many outcomes there were."""
        return self.codes.total()

    def see(self, what: str, outcome: Outcome) -> None:
        """Judge a call; `what` says which, without anything secret in it."""
        with self._lock:
            self.codes[outcome.code.name] += 1
            self.problems += self._faults(what, outcome)

    def see_bytes(self, what: str, told: bytes) -> None:
        """Judge bytes that came back in another way."""
        if any(canary in told for canary in self._canaries):
            self.found("leak", what)

    def see_answer(self, what: str, told: bytes) -> None:
        """Judge what a server answered to bytes that no client library would send."""
        self.see_bytes(what, told)
        if _FAULT_OF_HTTP.search(told) or b"Traceback" in told:
            self.found("INTERNAL", what)

    def found(self, kind: str, what: str) -> None:
        """Note a problem that somebody else found."""
        with self._lock:
            self.problems.append(Problem(kind, what))

    def _faults(self, what: str, outcome: Outcome) -> list[Problem]:
        found = [Problem("leak", f"{what} → {outcome.code.name}")] if self._leaks(outcome) else []
        if outcome.code in _FAULTS:
            found.append(Problem(outcome.code.name, f"{what}: {outcome.details[:200]}"))
        if outcome.code is grpc.StatusCode.DEADLINE_EXCEEDED and not outcome.is_from_server:
            found.append(Problem("hang", f"{what}: no answer after {outcome.seconds:.0f} s"))
        if outcome.code is grpc.StatusCode.UNAVAILABLE and not outcome.is_from_server:
            found.append(Problem("connection", f"{what}: {outcome.details[:200]}"))
        if outcome.code is grpc.StatusCode.UNAVAILABLE and _DAMAGE in outcome.details:
            found.append(Problem("damage", f"{what}: {outcome.details[:200]}"))
        return found

    def _leaks(self, outcome: Outcome) -> bool:
        return any(canary in outcome.told for canary in self._canaries)
