"""Which log it is, and how far: what an index keeps of the log that it follows."""

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
    """A log by its name (`LogIdentity.name`), and a sequence of it.

    An index of the version before does not know whose it is: its name is empty.
    """

    name: str
    sequence: int

    def can_follow(self, log: LogPosition) -> bool:
        """Return whether an index that has come this far can go on with a log."""
        return self.name in {"", log.name} and self.sequence <= log.sequence
