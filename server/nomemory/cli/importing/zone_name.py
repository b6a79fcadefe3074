"""The name of a time zone as an option."""

from __future__ import annotations

from datetime import tzinfo
from zoneinfo import ZoneInfo

import click


class ZoneName(click.ParamType[tzinfo]):
    """Reads an IANA name such as `Asia/Shanghai`."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """Return the zone, or refuse the name."""
        if isinstance(value, tzinfo):
            return value
        try:
            return ZoneInfo(str(value))
        except (ValueError, OSError, KeyError):
            return self.fail(f"{value!r} is no time zone; try one like Europe/Berlin.", param, ctx)
