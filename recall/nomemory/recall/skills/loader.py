"""Find recall skills by name and load them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nomemory.recall.skills.folder import (
    SKILL_FILE,
    Fingerprint,
    SkillFault,
    SkillFolder,
    SkillInvalidError,
    SkillNotFoundError,
)
from nomemory.recall.skills.frontmatter import FrontmatterError, read_frontmatter
from nomemory.recall.skills.steering.steering import PlannerConfiguration, read_planner_configuration

CREATOR_SKILL = "retrieval-skill-creator"
"""The bundled skill for writing skills, meant for assistants."""

FRONTMATTER_KEYS = ("name", "description")
"""The supported frontmatter keys."""
_NAME = re.compile(r"[a-z0-9-]{1,64}")
_DESCRIPTION_CHARS = 1_024


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that was loaded from a folder, or created in code.

    `body` is the text of SKILL.md without frontmatter. `references` maps relative paths, such as
    `references/lexicon.md`, to texts. `notes` describe ignored keys and invalid entries. `steering` configures the
    rule-based planner; it is empty for a skill that was created in code.
    """

    name: str
    description: str
    body: str
    references: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    steering: PlannerConfiguration = field(default_factory=PlannerConfiguration)


class SkillLibrary:
    """Loads skills from folders, and reloads them after changes. The name of a skill's folder is the name of the skill.

    Args:
        folders: the parent folders to search. The first folder that contains the skill is used.
        default: name of the skill that is loaded if a request names no skill.
    """

    def __init__(self, folders: Sequence[Path], default: str) -> None:
        self._folders = tuple(folders)
        self._default = default
        self._loaded: dict[str, tuple[Fingerprint, Skill]] = {}

    def load(self, name: str = "") -> Skill:
        """Return the skill with a name, or the default skill if the name is empty.

        Raises:
            SkillNotFoundError: no folder contains the skill.
            SkillInvalidError: the skill cannot be loaded.
        """
        name = name or self._default
        try:
            return self._load_current_version(name)
        except SkillInvalidError as error:
            raise error.add_skill_name(name) from None
        except OSError as error:
            file = f"`{Path(error.filename).name}`" if error.filename else "a file"
            raise SkillInvalidError(f"{file} cannot be read: {error.strerror}", SkillFault.TEXT, skill=name) from None

    def list_names(self) -> list[str]:
        """Return the names of the recall skills, the default skill first. Skills are not validated."""
        folders = {file.parent.name for folder in self._folders for file in folder.glob(f"*/{SKILL_FILE}")}
        return sorted(
            filter(_NAME.fullmatch, folders - {CREATOR_SKILL}), key=lambda name: (name != self._default, name)
        )

    def _load_current_version(self, name: str) -> Skill:
        folder = self._find_folder(name)
        fingerprint = folder.compute_fingerprint()
        loaded = self._loaded.get(name)
        if loaded and loaded[0] == fingerprint:
            return loaded[1]
        skill = _read_skill(name, folder)
        self._loaded[name] = (fingerprint, skill)
        return skill

    def _find_folder(self, name: str) -> SkillFolder:
        if not _NAME.fullmatch(name):
            raise SkillNotFoundError("invalid skill name: use 1 to 64 characters of a-z, 0-9 and `-`")
        for library in self._folders:
            if (library / name).is_dir():
                return SkillFolder(library / name, library)
        raise SkillNotFoundError(f"there is no skill `{name}`")


def _read_skill(name: str, folder: SkillFolder) -> Skill:
    text = folder.read_skill_file()
    try:
        head = read_frontmatter(text)
        declared_name, description = (head.get_string(key) for key in FRONTMATTER_KEYS)
    except FrontmatterError as error:
        raise SkillInvalidError(f"`{SKILL_FILE}`: {error}", SkillFault.FRONTMATTER) from None
    if declared_name != name:
        raise SkillInvalidError("`name` must equal the name of the folder", SkillFault.NAME)
    if not 0 < len(description) <= _DESCRIPTION_CHARS:
        raise SkillInvalidError(f"`description` must have 1 to {_DESCRIPTION_CHARS} characters", SkillFault.DESCRIPTION)
    if not head.body:
        raise SkillInvalidError("there is no text after the frontmatter", SkillFault.FRONTMATTER)
    references = folder.read_references()
    steering = read_planner_configuration({**references, SKILL_FILE: text})
    ignored = (
        f"the skill's `{key}` is ignored: the server sets limits and tools"
        for key in head.values
        if key not in FRONTMATTER_KEYS
    )
    return Skill(name, description, head.body, references, (*ignored, *steering.notes), steering)
