"""Times in the time zone of the person who asks."""

from __future__ import annotations

from datetime import datetime, tzinfo


def to_local_time(moment: datetime, zone: tzinfo | None) -> datetime:
    """Convert a time to a time zone; return it unchanged if the local time is outside the years 1 to 9999."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment
