"""The name of a new skill."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from nomemory.recall.authoring.scaffold.domain import domains_of
from nomemory.recall.authoring.scaffold.scenario import Scenario
from nomemory.text.stop_words import COMPARISON_STOP_WORDS

NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_WORD: Final = re.compile(r"[a-z0-9]{2,20}")
_WORDS_MAX: Final = 4
_CHARS_MAX: Final = 64
_IDLE: Final = COMPARISON_STOP_WORDS | {"assistant", "app", "bot", "agent", "ai", "help", "helps", "helping", "recall"}


def name_for(scenario: Scenario) -> str:
    """Derive a name: the business that the sentence names, else its English words, else a digest of it."""
    slugs = [domain.slug for domain in domains_of(scenario.text)]
    words = [word for word in _WORD.findall(scenario.text.casefold()) if word not in _IDLE][:_WORDS_MAX]
    digest = hashlib.blake2b(scenario.text.encode(), digest_size=4).hexdigest()
    return "-".join(("recall", *(slugs or dict.fromkeys(words) or [digest])))[:_CHARS_MAX].rstrip("-")
