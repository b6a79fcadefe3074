"""Steps of a recall."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]


@dataclass(frozen=True, slots=True)
class RecallStep:
    """A tool call of a recall, or a decision without a call if `tool` is empty.

    `arguments` never contain a user id. `word_hit_count` is the number of hits that contain words of the query; None if
    unknown. `next_cursor` is the cursor for the next page, or empty. `semantic_disabled` means that semantic search was
    unavailable during the call.
    """

    iteration: int
    thought: str
    tool: str = ""
    arguments: Mapping[str, JsonValue] = field(default_factory=dict)
    hit_count: int = 0
    word_hit_count: int | None = None
    message_ids: tuple[str, ...] = ()
    observation: str = ""
    next_cursor: str = ""
    elapsed_s: float = 0.0
    semantic_disabled: bool = False
