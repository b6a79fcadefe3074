"""Reader that compares the results of concurrent reads with the ledgers."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

import grpc

from nomemory.v1 import query_service_pb2 as pb
from proofs.finding import Finding
from proofs.replicas import Replicas
from proofs.server_under_test import ServerUnderTest
from proofs.torture.connection import TIMEOUT_S, Connection
from proofs.torture.ledger import Ledger, State
from proofs.torture.reads import ReadResult, get_versions_by_id, list_all_messages
from proofs.torture.verification import find_duplicates
from proofs.torture.writer import COMMON_WORD

_PAUSE_S = 0.05


class ReadChecker:
    """Reads random users; each read must return every message state that is certain both before and after the read."""

    def __init__(self, ledgers: Sequence[Ledger], server: ServerUnderTest | Replicas, seed: int) -> None:
        self._ledgers = ledgers
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._connection = Connection(server)
        self._mismatches: list[Finding] = []

    @property
    def findings(self) -> list[Finding]:
        """The detected violations."""
        return self._mismatches + self._connection.findings

    def run_until(self, stop: threading.Event) -> None:
        """Read until `stop` is set."""
        while not stop.is_set():
            self._check_random_read()
            stop.wait(self._random.random() * _PAUSE_S)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _check_random_read(self) -> None:
        ledger = self._random.choice(self._ledgers)
        if not ledger.users:
            return
        user_id = self._random.choice(ledger.users[-3:])
        before, token = ledger.get_certain_states(user_id), ledger.tokens.get(user_id, "")
        by_words = self._random.random() < 0.5  # noqa: PLR2004 - probability
        result = self._connection.attempt_call(
            lambda: self._search(user_id, token) if by_words else self._list_messages(user_id)
        )
        if isinstance(result, grpc.StatusCode):
            return
        self._check_result(
            f"{user_id} by {'lexical search' if by_words else 'list'} while writing",
            result,
            before,
            ledger.get_certain_states(user_id),
        )

    def _list_messages(self, user_id: str) -> ReadResult:
        return list_all_messages(self._connection.query, user_id)

    def _search(self, user_id: str, token: str) -> ReadResult:
        request = pb.LexicalSearchRequest(user_id=user_id, query_text=COMMON_WORD, page_size=500, at_least=token)
        page = self._connection.query.LexicalSearch(request, timeout=TIMEOUT_S)
        return get_versions_by_id(page.items)

    def _check_result(self, where: str, result: ReadResult, before: dict[str, State], after: dict[str, State]) -> None:
        self._mismatches += find_duplicates(where, result)
        seen = dict(result)
        for item, state in before.items():
            if item not in after or after[item] != state or seen.get(item) == state:
                continue
            kind = "resurrected" if state is None else "altered" if item in seen else "not found"
            self._mismatches.append(Finding(kind, f"{where}: {item}"))
