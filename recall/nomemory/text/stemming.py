"""English stems, by the Snowball algorithm."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import Stemmer


class _Stemmers(threading.local):
    """A stemmer keeps state while it works, so each thread has its own."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


_stemmers = _Stemmers()


def stemmed(words: Sequence[str]) -> list[str]:
    """Return the stems of lower-case words. Words of other languages mostly stay as they are."""
    found: list[str] = _stemmers.english.stemWords(words)
    return found
