"""Makes a skill's files and puts them in place, once they pass the check."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nomemory.recall.authoring.lint.check import Report, check
from nomemory.recall.authoring.scaffold.naming import NAME
from nomemory.recall.errors import RecallError


class NotCreatedError(RecallError):
    """A skill cannot be put where it was wanted; the text says why."""


class NotPassedError(NotCreatedError):
    """What would stand in the folder does not pass the check."""

    def __init__(self, report: Report) -> None:
        super().__init__("the skill would not pass nomemory skill check")
        self.report = report


def expect_room(name: str, library: Path, *, force: bool = False) -> None:
    """See whether a skill could be put there.

    Raises:
        NotCreatedError: the name is none, or the folder exists and may not be replaced.
    """
    if not NAME.fullmatch(name):
        raise NotCreatedError("a skill's name has 1 to 64 characters of a-z, 0-9 and -, and no - at its ends")
    folder = library / name
    if folder.is_symlink() or (folder.exists() and not (force and folder.is_dir())):
        raise NotCreatedError(f"{folder} exists already: choose another --name, or replace it with --force")


def put(files: Mapping[str, str], name: str, library: Path, *, force: bool = False) -> Report:
    """Write a skill into a folder of its name, all of it or nothing.

    Args:
        files: texts by their relative paths.
        name: the skill's name.
        library: the folder of skills; it is made if need be.
        force: replace these files where the folder exists; its other files stay.

    Returns:
        What the check says of it: warnings at most.

    Raises:
        NotPassedError: an error would be left; nothing was written.
        NotCreatedError: the name is none, or the folder exists.
        OSError: it cannot be written.
    """
    expect_room(name, library, force=force)
    folder = library / name
    library.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".nomemory-", dir=library) as scratch:
        made = Path(scratch) / name
        if folder.exists():
            shutil.copytree(folder, made, symlinks=True)
        report = _written(files, made)
        _swap(made, folder, Path(scratch) / "before")
    return Report(folder, report.findings)


def trial(files: Mapping[str, str], name: str) -> Report:
    """Check a skill that is not there yet."""
    with tempfile.TemporaryDirectory(prefix="nomemory-") as scratch:
        made = Path(scratch) / name
        _write(files, made)
        return check(made)


def _written(files: Mapping[str, str], folder: Path) -> Report:
    _write(files, folder)
    report = check(folder)
    if report.errors:
        raise NotPassedError(report)
    return report


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        file = folder / path
        if file.parent.is_symlink():
            raise NotCreatedError(f"{file.parent.name} is a link: nothing is written through it")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)  # a link there would be written through
        file.write_text(text, encoding="utf-8")


def _swap(made: Path, folder: Path, before: Path) -> None:
    """Put a folder in place of another by renaming: nobody sees half of it."""
    if folder.exists():
        folder.rename(before)
    made.rename(folder)
