"""The identity and the position of a message log, and the checkpoint of a follower."""

from __future__ import annotations

from typing import NamedTuple


class LogIdentity(NamedTuple):
    """The random id of a message log, and its epoch.

    The first epoch is the empty string. The epoch changes when a backup is restored or a loss is accepted, because
    later changes then reuse sequence numbers that followers have already seen. Within an epoch, a sequence number
    identifies one change.
    """

    log_id: str
    epoch: str = ""

    @property
    def name(self) -> str:
        """The id and the epoch of the message log as one string."""
        return f"{self.log_id}{self.epoch}"


class LogPosition(NamedTuple):
    """The identity of a message log, and its latest sequence number."""

    identity: LogIdentity
    sequence: int


class Checkpoint(NamedTuple):
    """The position of a follower in a message log.

    Attributes:
        log: the name of the message log (`LogIdentity.name`). The name of the message log is empty in records that were
            written by a version without epochs.
        sequence: the sequence number of the last applied change.
    """

    log: str
    sequence: int

    def matches_log(self, log: LogIdentity) -> bool:
        """Return whether this checkpoint belongs to the given message log and epoch."""
        return self.log == log.name if self.log else not log.epoch

    def can_resume(self, log: LogPosition) -> bool:
        """Return whether a follower can continue from this checkpoint."""
        return self.matches_log(log.identity) and self.sequence <= log.sequence
