"""A faster import of structlog, without rich.

Importing rich takes a tenth of the startup time, and JSON logs do not use it. This module has no effect if rich is
already imported.
"""

from __future__ import annotations

import sys

_ABSENT = "rich" not in sys.modules

if _ABSENT:
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` fail

import structlog  # noqa: E402
from structlog import get_logger  # noqa: E402

if _ABSENT:
    del sys.modules["rich"]

__all__ = ["get_logger", "structlog"]
