"""What a skill may name and cannot set: limits and tools are the host's."""

from __future__ import annotations

import re
from typing import Final

_NAMES: Final = (
    r"(?:max_)?(?:iterations|tool_calls|evidence_messages)|budgets?|deadline(?:_s)?|page_size|allowed[-_]tools"
)
_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
_LINE: Final = re.compile(
    rf"^[ \t]*(?:[-*][ \t]+)?[*_`]*({_NAMES})[*_`]*[ \t]*[:=：]",
    re.IGNORECASE | re.MULTILINE,
)


def is_host_setting(name: str) -> bool:
    """Return whether a name is that of a limit or a permission of the host."""
    return bool(_NAME.fullmatch(name))


def host_settings(text: str) -> tuple[str, ...]:
    """Return the names of the host's settings that a text tries to set, each once, in lower case."""
    return tuple(dict.fromkeys(found[1].lower() for found in _LINE.finditer(text)))
