"""Reads Markdown into blocks, in time linear in its length. Inline marks stay text."""

from __future__ import annotations

from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from nomemory.recall.skills.frontmatter import frontmatter_lines

_NOT_IN_SKILLS: Final = ("code", "hr", "lheading", "reference")
"""A deep indent makes no code, a line of dashes no rule and no heading, a bracket at its start no definition."""


def _parser(*without: str) -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table").disable([*_NOT_IN_SKILLS, *without])
    parser.core.ruler.enableOnly(["block"])
    return parser


_BLOCKS: Final = _parser()
_BLOCKS_AND_COMMENTS: Final = _parser("html_block")


def block_tokens(text: str, *, in_comments: bool = False) -> list[Token]:
    """Return the tokens of a text's blocks. The lines of their maps are counted from 0; frontmatter is left out.

    Args:
        text: a whole file.
        in_comments: what stands in HTML comments is read like the rest.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    head = frontmatter_lines(text)
    parser = _BLOCKS_AND_COMMENTS if in_comments else _BLOCKS
    return parser.parse("\n".join([*[""] * head, *lines[head:]]))


def first_line(token: Token) -> int:
    """Return the number of the first line of a token's block, counted from 1."""
    return token.map[0] + 1 if token.map else 1
