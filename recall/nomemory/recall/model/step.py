"""One step of a recall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool, or, with an empty `tool`, a decision without one. `arguments` never hold a user id.

    `word_hits` is how many of the hits hold words of the query; None where a call does not say. `meaning_off`: the call
    showed, or met, that meaning cannot be searched.
    """

    iteration: int
    thought: str
    tool: str = ""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    hits: int = 0
    word_hits: int | None = None
    message_ids: tuple[str, ...] = ()
    observation: str = ""
    elapsed_s: float = 0.0
    meaning_off: bool = False
