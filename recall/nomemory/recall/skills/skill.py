"""A recall skill as the agent sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nomemory.recall.skills.steering.steering import Steering


@dataclass(frozen=True, slots=True)
class Skill:
    """A loaded, valid skill.

    `body` is SKILL.md after its frontmatter. `references` maps relative paths (`references/lexicon.md`) to their text.
    `notes` say what the loader ignored and could not read. `steering` is what the rules follow; that of a skill made in
    code steers nothing.
    """

    name: str
    description: str
    body: str
    references: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    steering: Steering = field(default_factory=Steering)
