"""What a check of the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `advice` says what to do about it; a check that failed or warns always has one."""

    name: str
    state: State
    finding: str
    advice: str = ""
