"""Leaves secrets of known forms out of what is stored.

A shape is how a kind of secret looks, not whose it is: most services make tokens of a short prefix and a long run of
letters and digits. What has no shape, such as a password in a sentence, cannot be known.
"""

from __future__ import annotations

from typing import Final

import regex  # type: ignore[import-untyped]  # it ships without types

LEFT_OUT: Final = "[secret left out]"
"""What stands in the place of a secret."""

_NAMES: Final = r"(?:pass(?:word|wd|phrase)|secret|token|credential|(?:api|access|private|signing|encryption)[_-]?key)"

_PREFIXED: Final = (
    r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]{1,11}[_-](?:[A-Za-z0-9]{1,14}[_-]){0,3}"
    r"(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{20,}[A-Za-z0-9_-]*"
)
"""A short prefix, then a long run of letters of both cases and digits."""

_SHAPES: Final = tuple(
    regex.compile(shape)
    for shape in (
        # A block of a private key, whole or cut short.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)",
        _PREFIXED,
        r"(?<![A-Za-z0-9])(?:sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_|pypi-)[A-Za-z0-9_-]{20,}",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}",
        # A signed token: three parts, the first two JSON in base64.
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",
        # The password in an address.
        r"(?<=://)[^\s/:@'\"]*:[^\s/@'\"]+(?=@)",
        # What a header says who calls with.
        r"(?i)(?<![A-Za-z])(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?\K[^\s\"',]+",
        r"(?i)(?<![a-z0-9])(?:bearer|basic)\s+\K(?=[^\s\"']*[0-9])[A-Za-z0-9._~+/-]{16,}=*",
        # A value that is given to such a name: in quotes, without a space before it, or with a digit in it.
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*)?[\"']?\s*[:=]\s*\K(?:\"[^\"\n]{{4,}}\"|'[^'\n]{{4,}}')",
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*)?=\K[^\s\"'`,;&(){{}}\[\]<>$]{{4,}}+(?![(\[.])",
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*)?\s*[:=]\s+\K(?=\S*[0-9])[^\s\"'`,;&(){{}}\[\]<>$]{{6,}}+(?![(\[.])",
    )
)


def without_secrets(text: str) -> str:
    """Return a text with `[secret left out]` in the place of each secret of a known form."""
    for shape in _SHAPES:
        text = shape.sub(LEFT_OUT, text)
    return text
