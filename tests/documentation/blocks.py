"""The code blocks of the documentation pages, and the commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^(?P<fence>```+)(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(?:^|\s)# .*$")
ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A shell command: its variables and its words, without comments."""

    variables: dict[str, str]
    words: tuple[str, ...]

    @property
    def program(self) -> str:
        """The program of the command without environment assignments; empty if there are only assignments."""
        return re.sub(r"^(\S*/bin/|\./)", "", self.words[0]) if self.words else ""


@dataclass(frozen=True)
class Block:
    """A code block and its position."""

    page: str
    language: str
    text: str

    @property
    def is_for_the_shell(self) -> bool:
        """Whether the block contains shell commands."""
        return self.language == "sh" or (self.language == "text" and self.text.startswith("nomemory "))

    def commands(self) -> list[Command]:
        """Return the commands of a shell block, one per line, pipe or list; continued lines are joined."""
        complete, begun = [], ""
        for line in self.text.replace("\\\n", " ").splitlines():
            begun += COMMENT.sub("", line) + "\n"
            if begun.count("'") % 2 == 0:
                complete += [command(words) for words in parts(begun)]
                begun = ""
        return complete


def parts(line: str) -> list[list[str]]:
    """Split a line into the words of its commands."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    chapters: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("|&;"):
            chapters.append([])
        else:
            chapters[-1].append(word)
    return [words for words in chapters if words]


def command(words: list[str]) -> Command:
    """Parse the words of a command."""
    variables = {}
    rest = words[1:] if words[0] in ("env", "export") else list(words)
    while rest and (set_to := ASSIGNMENT.fullmatch(rest[0])):
        variables[set_to[1]] = set_to[2]
        rest = rest[1:]
    return Command(variables, tuple(rest))


@cache
def blocks() -> tuple[Block, ...]:
    """Return every block of every page in order."""
    patterns = ("*.md", "docs/*.md", "clients/*/README.md", "website/*.md")
    files = [file for pattern in patterns for file in sorted(ROOT.glob(pattern))]
    pages = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return tuple(
        Block(page, item["language"], item["text"]) for page, text in pages.items() for item in FENCED.finditer(text)
    )


def of_page(page: str, language: str) -> list[Block]:
    """Return the blocks of one page in one language."""
    return [block for block in blocks() if (block.page, block.language) == (page, language)]
