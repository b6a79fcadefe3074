"""The identity of a log, its position, and the checkpoint of a follower."""

from __future__ import annotations

from typing import NamedTuple


class LogIdentity(NamedTuple):
    """The random name that a log got when it was created, and its epoch.

    The epoch is empty at first. It changes whenever the log loses changes that others may have seen: when a backup is
    restored, or when a loss is accepted. Within one epoch a sequence means one change and nothing else.
    """

    log_id: str
    epoch: str = ""

    @property
    def name(self) -> str:
        """Log and epoch as one text."""
        return f"{self.log_id}{self.epoch}"


class LogPosition(NamedTuple):
    """A log, and the sequence of its latest change."""

    identity: LogIdentity
    sequence: int


class Checkpoint(NamedTuple):
    """How far something has followed a log, which it knows by name (`LogIdentity.name`).

    What a version of the server wrote that knew no epochs does not say which log it followed: its name is empty.
    """

    log: str
    sequence: int

    def is_of(self, log: LogIdentity) -> bool:
        """Return whether it followed this log, in this epoch."""
        return self.log == log.name if self.log else not log.epoch

    def can_resume(self, log: LogPosition) -> bool:
        """Return whether it can go on following a log from here."""
        return self.is_of(log.identity) and self.sequence <= log.sequence
