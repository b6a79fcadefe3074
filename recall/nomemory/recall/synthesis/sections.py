"""Select the section of a statement, depending on whether its message states a preference or an obligation."""

from __future__ import annotations

import re
from typing import Final

from nomemory.recall.grounding.assertions import is_quoted_text
from nomemory.recall.model.evidence import RetrievedMessage
from nomemory.recall.model.memory_view import Section

_START: Final = r"(?:^|[.!;,，。；！\n]\s*)(?:please |and |but |so |请|你)?"


_PREFERENCE: Final = re.compile(
    r"\bI(?:['’]d| would| do| don['’]?t| really| rather| still| always| absolutely)* (?:like|love|hate|prefer|enjoy)\b"
    r"|\bI (?:always|never)\b|\bmy favou?rite|我[^，。！？]{0,4}(?:喜欢|爱|讨厌|偏好)|我(?:从来?不|总是)",
    re.IGNORECASE,
)
"""First-person preferences and habits."""


_OBLIGATION: Final = re.compile(
    rf"{_START}(?:never(?! mind)|always|don['’]?t|do not)\b"
    r"|\bI (?:can['’]?t|cannot|must(?:n['’]t)?|may not|am not allowed)\b"
    rf"|{_START}(?:别(?!人)|不要|不许|务必|必须)|我[^，。！？]{{0,4}}(?:不能|不可以|必须|不许)",
    re.IGNORECASE,
)
"""Imperatives, and first-person obligations."""


def determine_section(message: RetrievedMessage) -> Section:
    """Return the section for a message: preferences, constraints, or the profile if it expresses neither."""
    if is_quoted_text(message.content):
        return Section.PROFILE
    if _OBLIGATION.search(message.content):
        return Section.CONSTRAINTS
    return Section.PREFERENCES if _PREFERENCE.search(message.content) else Section.PROFILE
