"""The head of a SKILL.md: as much YAML as a name and a description need, and no more.

A full YAML reader brings aliases, tags and types, none of which a skill needs and some of which are attacks. This one
knows top-level keys and their strings: plain, quoted, folded over indented lines, or as a block after `>` or `|`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

_FENCE = "---"
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*)[ \t]*:(?:[ \t]+(.*))?\s*\Z")
_BLOCK = re.compile(r"([>|])[+-]?\Z")
_NOT_A_STRING = tuple("&*!{[%@`")
_COMMENT = re.compile(r"(?:\A|[ \t]+)#.*\Z")


class FrontmatterError(Exception):
    """It is not frontmatter; the text says why."""


def split(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the raw lines of each top-level key, the key's own first, and the text after the frontmatter.

    Raises:
        FrontmatterError: it does not begin with `---`, does not end with it, or has a line that is no key.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise FrontmatterError("it does not begin with a line `---`")
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise FrontmatterError("its frontmatter is not closed by a line `---`")
    return _keys(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def string(lines: Sequence[str]) -> str:
    """Read the value of a key as a string.

    Raises:
        FrontmatterError: it is something else: a list, a mapping, an alias, an open quote.
    """
    first, rest = lines[0], [line.strip() for line in lines[1:]]
    block = _BLOCK.match(first)
    if block:
        return ("\n" if block[1] == "|" else " ").join(rest).strip()
    whole = " ".join([first, *rest]).strip()
    if whole.startswith(_NOT_A_STRING) or whole.startswith("- "):
        raise FrontmatterError("it is not a string")
    if whole.startswith(('"', "'")):
        return _quoted(whole)
    return _COMMENT.sub("", whole)


def _keys(lines: Sequence[str]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for key, value in _entries(lines):
        if key in keys:
            raise FrontmatterError(f"its frontmatter has `{key}` twice")
        keys[key] = value
    return keys


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    key, value = "", list[str]()
    for line in lines:
        if key and (not line.strip() or line[0] in " \t-"):
            value.append(line)
            continue
        if not line.strip() or line.startswith("#"):
            continue
        found = _KEY.match(line)
        if not found:
            raise FrontmatterError("its frontmatter has a line that is no `key: value`")
        if key:
            yield key, value
        key, value = found[1], [(found[2] or "").strip()]
    if key:
        yield key, value


def _quoted(text: str) -> str:
    if text.startswith("'"):
        inner = text[1:-1]
        if len(text) < len("''") or not text.endswith("'") or "'" in inner.replace("''", ""):
            raise FrontmatterError("it has a quote that is not closed")
        return inner.replace("''", "'")
    try:
        value = json.loads(text)
    except ValueError:
        raise FrontmatterError("it has a quote that is not closed or an escape that is not known") from None
    return str(value)
