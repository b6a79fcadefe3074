"""Write tokens. A read with a write token waits until the index that it reads has applied the write."""

from __future__ import annotations

from nomemory.server.faults import Reason, Violation, build_field_fault
from nomemory.server.runtime.token_cipher import ForgedTokenError, MalformedTokenError, TokenCipher

_PREFIX = "w_"


class WriteTokens:
    """Issues and decrypts write tokens, which contain the sequence number of a write in the message log."""

    def __init__(self, cipher: TokenCipher) -> None:
        self._cipher = cipher

    def issue(self, sequence: int) -> str:
        """Return the write token of a sequence number.

        All tokens have the same length, so that they do not reveal the number of writes.
        """
        return self._cipher.encrypt(_PREFIX, f"{sequence:020}".encode())

    def read(self, token: str) -> int:
        """Return the sequence number in a write token; 0 for an empty token.

        Raises:
            Fault: WRITE_TOKEN_INVALID.
        """
        if not token:
            return 0
        try:
            return int(self._cipher.decrypt(_PREFIX, token))
        except (MalformedTokenError, ForgedTokenError):
            violation = Violation("at_least", "is not a write token of this message log")
            raise build_field_fault(Reason.ERROR_REASON_WRITE_TOKEN_INVALID, violation) from None
