"""Redact passwords, API keys and tokens in a text by patterns.

Most patterns are not specific to one service, because many tokens have a short prefix and a long run of letters and
digits. A secret that matches no pattern, such as a password in a sentence, is not redacted.
"""

from __future__ import annotations

from typing import Final

import regex  # type: ignore[import-untyped]  # it ships without types

REDACTED: Final = "[secret removed]"
"""Replacement for a secret."""

_NAMES: Final = r"(?:pass(?:word|wd|phrase)|secret|token|credential|(?:api|access|private|signing|encryption)[_-]?key)"

_PREFIXED: Final = (
    r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9]{1,11}[_-](?:[A-Za-z0-9]{1,14}[_-]){0,3}"
    r"(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])(?=(?:[A-Za-z]*[0-9]){2})[A-Za-z0-9]{20,}[A-Za-z0-9_-]*"
)
"""A short prefix, then a long run of letters of both cases and digits."""

# Possessive quantifiers and (*SKIP) keep the search linear if a text has many beginnings of secrets.
_KEY_LABEL: Final = "[A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}"
_PATTERNS: Final = tuple(
    regex.compile(pattern)
    for pattern in (
        # Private key block, complete or truncated.
        rf"-----BEGIN {_KEY_LABEL}-----(?s:.*?)(?:-----END {_KEY_LABEL}-----|\Z)",
        _PREFIXED,
        r"(?<![A-Za-z0-9])(?:sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|npm_|hf_|pypi-)[A-Za-z0-9_-]{20,}",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}",
        # JSON Web Token.
        r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}+(*SKIP)\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]+",
        # Password in a URL.
        r"(?<=://)[^\s/:@'\"]*:[^\s/@'\"]+(?=@)",
        # Authorization header.
        r"(?i)(?<![A-Za-z])(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic|token|digest)\s+)?\K[^\s\"',]+",
        r"(?i)(?<![a-z0-9])(?:bearer|basic)\s+\K(?=[^\s\"']*[0-9])[A-Za-z0-9._~+/-]{16,}=*",
        # Value assigned to a secret-like name: quoted, without a space before it, or containing a digit.
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*+(*SKIP))?+[\"']?\s*[:=]\s*\K(?:\"[^\"\n]{{4,}}\"|'[^'\n]{{4,}}')",
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*+(*SKIP))?+=\K[^\s\"'`,;&(){{}}\[\]<>$]{{4,}}+(*SKIP)(?![(\[.])",
        rf"(?i){_NAMES}(?:_[A-Z0-9_]*+(*SKIP))?+\s*[:=]\s+\K(?=\S*[0-9])[^\s\"'`,;&(){{}}\[\]<>$]{{6,}}+(?![(\[.])",
    )
)


def redact_secrets(text: str) -> str:
    """Replace each secret in a text by `REDACTED`."""
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    return text
