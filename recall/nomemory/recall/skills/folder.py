"""Read the text files of a skill folder, and no files outside it. Files of a skill are never executed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

from nomemory.recall.errors import RecallError

SKILL_FILE: Final = "SKILL.md"
_MAX_FILE_BYTES = 64 * 1024
_MAX_REFERENCES = 16
_TEXTS = {"references": frozenset({".md", ".txt", ".json", ".yaml", ".yml"}), "scripts": frozenset({".md"})}
Fingerprint = tuple[tuple[str, int, int, int], ...]


class SkillFault(Enum):
    """The part of a skill that is invalid."""

    FOLDER = "folder"
    TEXT = "text"
    FRONTMATTER = "frontmatter"
    NAME = "name"
    DESCRIPTION = "description"


class SkillNotFoundError(RecallError):
    """No skill has the requested name. The error message can be shown to callers."""


class SkillInvalidError(RecallError):
    """A skill cannot be loaded. The error message states the reason and can be shown to callers.

    Attributes:
        code: the part of the skill that is invalid.
        reason: the error message without the skill's name.
        file: path of the invalid file within the skill.
    """

    def __init__(self, reason: str, code: SkillFault, file: str = SKILL_FILE, skill: str = "") -> None:
        super().__init__(f"the skill `{skill}` cannot be loaded: {reason}" if skill else reason)
        self.reason = reason
        self.code = code
        self.file = file

    def add_skill_name(self, skill: str) -> SkillInvalidError:
        """Return this error with the skill's name in the message."""
        return SkillInvalidError(self.reason, self.code, self.file, skill)


class SkillFolder:
    """Reads the files of a skill.

    Args:
        path: the folder of the skill.
        library: the folder that must contain the skill after symbolic links are resolved.

    Raises:
        SkillInvalidError: raised by all methods if a file is missing, is not UTF-8 text, is too large, or is outside
            the folder.
    """

    def __init__(self, path: Path, library: Path) -> None:
        self._path = path
        self._root = _resolve_path(path)
        if not self._root.is_relative_to(_resolve_path(library)):
            raise SkillInvalidError(
                "the skill's folder is a symbolic link to a location outside the skills folder", SkillFault.FOLDER
            )

    def compute_fingerprint(self) -> Fingerprint:
        """Return a value that changes when a file of the skill changes. The files are not read."""
        marks = []
        for name in (SKILL_FILE, *self._list_file_names()):
            status = self._find_regular_file(name).stat()
            marks.append((name, status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(marks)

    def read_skill_file(self) -> str:
        """Return the text of SKILL.md."""
        return self._read_text(SKILL_FILE)

    def read_references(self) -> dict[str, str]:
        """Return the texts of the files in `references/`, and of the prose files in `scripts/`, by relative path."""
        return {name: self._read_text(name) for name in self._list_file_names()}

    def _list_file_names(self) -> list[str]:
        names = sorted(self._iterate_file_names())
        if len(names) > _MAX_REFERENCES:
            raise SkillInvalidError(
                f"expected at most {_MAX_REFERENCES} reference files, got {len(names)}", SkillFault.FOLDER
            )
        return names

    def _iterate_file_names(self) -> Iterator[str]:
        for folder, suffixes in _TEXTS.items():
            listed = self._resolve_file_path(folder)
            for file in listed.iterdir() if listed.is_dir() else ():
                if file.suffix in suffixes and not file.name.startswith("."):
                    yield f"{folder}/{file.name}"

    def _read_text(self, name: str) -> str:
        with self._find_regular_file(name).open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        if len(content) > _MAX_FILE_BYTES:
            raise SkillInvalidError(f"`{name}` is larger than {_MAX_FILE_BYTES // 1024} KB", SkillFault.TEXT, name)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SkillInvalidError(f"`{name}` is not UTF-8 text", SkillFault.TEXT, name) from None

    def _find_regular_file(self, name: str) -> Path:
        file = self._resolve_file_path(name)
        if not file.is_file():
            fault = SkillFault.FOLDER if name == SKILL_FILE else SkillFault.TEXT
            raise SkillInvalidError(f"`{name}` is missing or not a regular file", fault, name)
        return file

    def _resolve_file_path(self, name: str) -> Path:
        direct = self._root / name
        if not any(item.is_symlink() for item in (direct, *direct.parents[: name.count("/")])):
            return direct
        path = _resolve_path(self._path / name)
        if not path.is_relative_to(self._root):
            raise SkillInvalidError(
                f"`{name}` is a symbolic link to a location outside the skill folder", SkillFault.FOLDER, name
            )
        return path


def _resolve_path(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # Python up to 3.12 raises this error for a circular link.
        raise SkillInvalidError(f"`{path.name}` is a circular symbolic link", SkillFault.FOLDER) from None
