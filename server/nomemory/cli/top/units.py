"""Figures as short as a table wants them."""

from __future__ import annotations

import math
from typing import Final

_NONE: Final = "–"
_MEGABYTE: Final = 1e6
_GIGABYTE: Final = 1e9
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400


def rate(per_s: float) -> str:
    """Write how often something happens in a second."""
    if per_s == 0:
        return "0"
    if per_s < 0.1:  # noqa: PLR2004 - what one digit can say
        return "<0.1"
    return f"{per_s:,.1f}" if per_s < 100 else f"{per_s:,.0f}"  # noqa: PLR2004 - three digits


def duration(seconds: float | None) -> str:
    """Write how long something took."""
    if seconds is None:
        return _NONE
    if math.isinf(seconds):
        return ">30 s"  # the histograms' last bound
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{1e3 * seconds:.1f} ms" if seconds < 0.01 else f"{1e3 * seconds:.0f} ms"  # noqa: PLR2004 - two digits


def age(seconds: float) -> str:
    """Write how long something has lasted, in its two largest units."""
    if seconds >= _DAY_S:
        return f"{seconds // _DAY_S:.0f} d {seconds % _DAY_S // _HOUR_S:.0f} h"
    if seconds >= _HOUR_S:
        return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:.0f} min"
    if seconds >= _MINUTE_S:
        return f"{seconds // _MINUTE_S:.0f} min {seconds % _MINUTE_S:.0f} s"
    return f"{seconds:.1f} s"


def memory(size: float) -> str:
    """Write an amount of memory."""
    return f"{size / _GIGABYTE:.2f} GB" if size >= _GIGABYTE else f"{size / _MEGABYTE:.0f} MB"


def share(part: float, whole: float) -> str:
    """Write a part of something."""
    return f"{part / whole:.0%}" if whole else _NONE
