"""The register of erasures records which users and messages have been deleted, without storing their ids.

A backup that is older than an erasure still contains the deleted messages. A restore therefore keeps the register and
applies it to the restored message log. The register is a table of the message log, written in the transaction of the
deletion.

An entry contains an HMAC-SHA-256 of the user id, or of the user id and the message id. The key of the HMAC is derived
from the id of the message log, which a restore keeps. A register can therefore be applied to every copy of its message
log, but not to another log.

An entry applies to messages up to a sequence number, so messages that were written after the erasure are kept. Sequence
numbers can be compared only within an epoch. An `EpochStart` records the sequence number at which an epoch began.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

USER: Final = "user"
"""The kind of an entry for all messages of a user."""
MESSAGE: Final = "message"
"""The kind of an entry for one message."""

KINDS: Final = (USER, MESSAGE)

_PURPOSE: Final = b"nomemory erasure register"
_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = 0x36
_OUTER_PAD: Final = 0x5C


class RegisterError(Exception):
    """A register of erasures cannot be read or applied. The error message states the reason and what to do."""


class ErasureEntry(NamedTuple):
    """An entry of the register of erasures. Only the latest erasure of an id has an entry.

    Attributes:
        digest: the HMAC of the user id, or of the user id and the message id.
        kind: `USER` or `MESSAGE`.
        epoch: the epoch of the message log in which the data was erased.
        sequence: the sequence number of the erasure in that epoch.
        erased_us: the Unix time of the erasure in microseconds.
    """

    digest: bytes
    kind: str
    epoch: str
    sequence: int
    erased_us: int


class EpochStart(NamedTuple):
    """The start of an epoch of a message log.

    Attributes:
        sequence: the latest sequence number before the epoch.
        began_us: the Unix time of the start in microseconds; for the first epoch, the time at which the register was
            created.
    """

    epoch: str
    sequence: int
    began_us: int


class AppliedErasures(NamedTuple):
    """The result of applying a register of erasures to a message log.

    Attributes:
        users: the number of erased users who had messages in the message log.
        messages: the number of removed messages, including those of erased users.
    """

    entries: int
    users: int
    messages: int


@dataclass(frozen=True, slots=True)
class RegisterKey:
    """The HMAC key of the register of erasures of a message log."""

    key: bytes

    @classmethod
    def from_log_id(cls, log_id: str) -> RegisterKey:
        """Derive the key of a register from the id of its message log."""
        return cls(hmac.digest(log_id.encode(), _PURPOSE, "sha256"))

    @property
    def fingerprint(self) -> str:
        """A public identifier of the key, and thereby of the message log."""
        return self._compute_digest(b"log").hex()[:16]

    @property
    def hmac_pads(self) -> tuple[bytes, bytes]:
        """The inner and the outer key block of HMAC, with which PostgreSQL computes the digests."""
        block = self.key.ljust(_BLOCK_BYTES, b"\0")
        return bytes(byte ^ _INNER_PAD for byte in block), bytes(byte ^ _OUTER_PAD for byte in block)

    def compute_user_digest(self, user_id: str) -> bytes:
        """Return the digest that identifies a user in the register."""
        return self._compute_digest(b"\0".join((b"user", user_id.encode())))

    def compute_message_digest(self, user_id: str, message_id: str) -> bytes:
        """Return the digest that identifies a message in the register."""
        return self._compute_digest(b"\0".join((b"message", user_id.encode(), message_id.encode())))

    def _compute_digest(self, data: bytes) -> bytes:
        return hmac.digest(self.key, data, "sha256")


_NO_NEW_EPOCH: Final = """\
the message log was restored to a state before erasures of this register, and has no new epoch yet. Run `nomemory \
doctor --accept-loss`, then apply the register again"""


def find_last_affected_sequence(erasure: ErasureEntry, epochs: Sequence[EpochStart], latest: int) -> int:
    """Return the sequence number up to which an erasure affects a message log.

    An erasure in an epoch of this message log affects messages up to the sequence number of the erasure or the last
    sequence number of that epoch, whichever is smaller. An erasure in an unknown epoch was made in a message log that a
    restored backup has replaced, and affects all messages from before the replacement. The epochs are ordered, oldest
    first; `latest` is the latest sequence number of the message log.

    Raises:
        RegisterError: the message log has lost the erasure, but has not started a new epoch since.
    """
    starts = {start.epoch: index for index, start in enumerate(epochs)}
    index = starts.get(erasure.epoch)
    if index is None:
        later = [start.sequence for start in epochs[1:] if start.began_us > erasure.erased_us]
        if not later:
            raise RegisterError(_NO_NEW_EPOCH)
        return later[0]
    if index + 1 < len(epochs):
        return min(erasure.sequence, epochs[index + 1].sequence)
    if erasure.sequence > latest:
        raise RegisterError(_NO_NEW_EPOCH)
    return erasure.sequence


def resolve_affected_sequences(
    erasures: Iterable[ErasureEntry], epochs: Sequence[EpochStart], latest: int
) -> Iterable[tuple[ErasureEntry, int]]:
    """Yield each erasure with the sequence number up to which the erasure affects a message log.

    Raises:
        RegisterError: see `find_last_affected_sequence`.
    """
    return ((erasure, find_last_affected_sequence(erasure, epochs, latest)) for erasure in erasures)
