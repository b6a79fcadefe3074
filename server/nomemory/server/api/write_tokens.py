"""Write tokens: a later read can ask with one to see the write."""

from __future__ import annotations

from nomemory.server.faults import Reason, Violation, field_fault
from nomemory.server.runtime.token_cipher import ForgedTokenError, MalformedTokenError, TokenCipher

_PREFIX = "w_"


class WriteTokens:
    """Issues and reads write tokens. A token holds the log's sequence that covers the write."""

    def __init__(self, seal: TokenCipher) -> None:
        self._seal = seal

    def issue(self, sequence: int) -> str:
        """Make the token of a write. All are of one length, which would tell how many changes there were."""
        return self._seal.encrypt(_PREFIX, f"{sequence:020}".encode())

    def read(self, token: str) -> int:
        """Return the sequence; 0 for no token.

        Raises:
            Fault: WRITE_TOKEN_INVALID.
        """
        if not token:
            return 0
        try:
            return int(self._seal.decrypt(_PREFIX, token))
        except (MalformedTokenError, ForgedTokenError):
            violation = Violation("at_least", "is not a write token of this log")
            raise field_fault(Reason.ERROR_REASON_WRITE_TOKEN_INVALID, violation) from None
