"""Parse the YAML frontmatter of SKILL.md. Only top-level keys with plain strings are supported.

The parser reads YAML events and constructs no objects. Aliases are not expanded, and tags are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from nomemory.recall.errors import RecallError

_FENCE: Final = "---"
_MAX_DEPTH: Final = 16
"""Maximum nesting depth. The YAML parser's time is quadratic in the depth."""
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ENTRY: Final = re.compile(r"^([A-Za-z][A-Za-z0-9_-]*[ \t]*:)(?=[ \t\n])(.*(?:\n(?:[ \t]+.*)?)*)$", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:\A|[ \t]+)#.*\Z")
_COLON: Final = re.compile(r":(?:\s|\Z)")
_NOT_PLAIN: Final = tuple("&*!{[%@`>|\"'")


class FrontmatterError(RecallError):
    """The frontmatter of SKILL.md is invalid. The error message states the reason."""


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The frontmatter of SKILL.md, and the text after it.

    `values` maps the top-level keys to strings, or to None for lists, mappings, aliases, and strings with an anchor or
    tag.
    """

    values: Mapping[str, str | None]
    body: str

    def get_string(self, key: str) -> str:
        """Return the value of a key; empty if the key is missing.

        Raises:
            FrontmatterError: the value is not a string.
        """
        value = self.values.get(key, "")
        if value is None:
            raise FrontmatterError(f"`{key}` must be a string")
        return value


def read_frontmatter(text: str) -> Frontmatter:
    """Parse the frontmatter of a text.

    Raises:
        FrontmatterError: the text does not begin with `---`, or the frontmatter is not closed, is not YAML in the form
            `key: value`, has a duplicate key, or is nested too deeply.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise FrontmatterError("the first line is not `---`")
    end = count_frontmatter_lines(text)
    if not end:
        raise FrontmatterError("the frontmatter is not closed by a line `---`")
    return Frontmatter(_parse_values("\n".join(lines[1 : end - 1])), "\n".join(lines[end:]).strip())


def count_frontmatter_lines(text: str) -> int:
    """Return the number of lines in the frontmatter, including both `---` lines; 0 if the text has no frontmatter."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return 0
    return next((number for number, line in enumerate(lines[1:], 2) if line.rstrip() == _FENCE), 0)


def _parse_values(head: str) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    try:
        nodes = iter(list(_iterate_top_level_nodes(yaml.parse(_ENTRY.sub(_quote_value, head), Loader=yaml.SafeLoader))))
    except yaml.YAMLError:
        raise _create_line_error() from None
    for key, value in zip(nodes, nodes, strict=False):
        name = _read_string_node(key)
        if name is None or not _KEY.fullmatch(name):
            raise _create_line_error()
        if name in values:
            raise FrontmatterError(f"duplicate key `{name}` in the frontmatter")
        values[name] = _read_string_node(value)
    return values


def _quote_value(entry: re.Match[str]) -> str:
    """Quote a plain value that contains a colon. YAML rejects such values, but they are common in descriptions."""
    value = " ".join(filter(None, (_COMMENT.sub("", line).strip() for line in entry[2].split("\n"))))
    if not _COLON.search(value) or value.startswith((*_NOT_PLAIN, "- ")):
        return entry[0]
    return f"{entry[1]} {json.dumps(value, ensure_ascii=False)}"


def _iterate_top_level_nodes(events: Iterable[yaml.Event]) -> Iterator[yaml.NodeEvent]:
    """Yield the keys and values of the top-level mapping, alternately."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            if depth == 0 and not isinstance(event, yaml.MappingStartEvent):
                raise _create_line_error()
            if depth == 1:
                yield event
            depth += isinstance(event, yaml.CollectionStartEvent)
            if depth > _MAX_DEPTH:
                raise FrontmatterError(f"the frontmatter is nested deeper than {_MAX_DEPTH} levels")


def _read_string_node(node: yaml.NodeEvent) -> str | None:
    if isinstance(node, yaml.ScalarEvent) and node.anchor is None and node.tag is None:
        return node.value.strip()
    return None


def _create_line_error() -> FrontmatterError:
    return FrontmatterError("the frontmatter has a line that is not `key: value`, or an unclosed quote")
