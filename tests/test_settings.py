"""Tests for the names, use and defaults of settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.settings.settings import list_settings_groups

SERVER = Path(__file__).parent.parent / "server" / "nomemory"
FILES = [*(SERVER / "server").rglob("*.py"), *(SERVER / "cli").rglob("*.py")]
READERS = "\n".join(file.read_text(encoding="utf-8") for file in FILES if file.parent.name != "settings")

KILLED_AFTER_S = 10.0  # the default time between SIGTERM and SIGKILL of container runtimes

FIELDS = [(name, field) for name, group in list_settings_groups().items() for field in group.model_fields]

SETTINGS_PAGE = Path(__file__).parent.parent / "docs" / "settings.md"


@pytest.mark.parametrize(("group", "name"), FIELDS)
def test_every_setting_is_used(group: str, name: str) -> None:
    is_passed_on = group in {"limits", "connections", "identity", "processes", "recall"}
    reads = rf"settings\.{group}\.{name}\b" + (rf"|\b{group}\.{name}\b" if is_passed_on else "")
    assert re.search(reads, READERS), f"nothing reads {group}.{name}"


def test_drain_timeout_leaves_time_for_commits_before_the_process_is_killed() -> None:
    assert list_settings_groups()["timing"].model_fields["drain_timeout_s"].default <= KILLED_AFTER_S / 2


def test_variables_have_distinct_names_and_are_documented() -> None:
    variables = [
        variable for group in list_settings_groups().values() for variable in group.map_variables_by_field().values()
    ]
    documented = re.findall(r"^- `(\w+)`", SETTINGS_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(variables) == len(set(variables))
    assert sorted(documented) == sorted(variables)


def test_each_variable_reaches_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_RECALL_DEADLINE_S", "2.5")
    monkeypatch.setenv("NOMEMORY_EMBEDDER", "none")
    monkeypatch.setenv("nomemory_max_page_size", "300")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    settings = Settings.from_environment(listen="127.0.0.1:1")
    assert (settings.recall.deadline_s, settings.embedder.kind, settings.limits.max_page_size) == (2.5, "none", 300)
    assert (settings.openai.base_url, settings.server.listen) == ("http://127.0.0.1:9/v1", "127.0.0.1:1")


def test_override_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOMEMORY_MAX_PAGE_SIZE", "300")
    settings = Settings.from_environment(max_page_size=200)
    assert settings.limits.max_page_size == 200
    assert settings.copy_with_changes(drain_timeout_s=1.0).limits.max_page_size == 200


def test_all_invalid_values_are_reported_together() -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.from_environment(max_page_size=0, recall_context_messages=0)
    assert [fault["loc"][-1] for fault in refused.value.errors()] == [
        "NOMEMORY_MAX_PAGE_SIZE",
        "NOMEMORY_RECALL_CONTEXT_MESSAGES",
    ]
