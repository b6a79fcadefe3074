"""structlog, loaded without rich: for errors in colours that would take a tenth of a server's start; our logs are JSON.

rich stays where it is loaded already, and the command line loads it for itself.
"""

from __future__ import annotations

import sys

_ABSENT = "rich" not in sys.modules

if _ABSENT:
    sys.modules["rich"] = None  # type: ignore[assignment]  # to the interpreter: there is no such module

import structlog  # noqa: E402
from structlog import get_logger  # noqa: E402

if _ABSENT:
    del sys.modules["rich"]

__all__ = ["get_logger", "structlog"]
