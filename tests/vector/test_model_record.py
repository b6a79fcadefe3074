"""The record of the active model, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from nomemory.server.embedding.factory import DisabledEmbedder
from nomemory.server.indexing.vector.backlog import Backlog
from nomemory.server.indexing.vector.model_record import ModelRecord, read_model_record, write_model_record
from nomemory.server.runtime.active_faults import ActiveFaults
from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.previous_model import PreviousModelUnavailableError, restore_previous_model
from nomemory.server.search.semantic.collection import create_named_collection
from nomemory.server.store.change_feed import ChangeRef
from nomemory.server.store.feed_position import FeedPosition
from nomemory.server.store.position import LogIdentity, LogPosition

HERE, ELSEWHERE = "https://name:password@models.example/v1?key=k", "https://other.example/v1"


def settings(url: str | None, model: str, **more: object) -> Settings:
    return Settings.from_environment(
        embedder="openai", embedding_model=model, embedding_dimension=8, openai_base_url=url, openai_api_key="secret",
        **more,
    )  # fmt: skip


def kept(tmp_path: Path, former: Settings) -> ModelRecord:
    write_model_record(tmp_path / "model.json", ModelRecord.from_settings(former, "small-8"))
    record = read_model_record(tmp_path / "model.json")
    assert record is not None
    return record


def test_a_model_record_restores_all_settings_except_keys(tmp_path: Path) -> None:
    former = settings(HERE, "small", embedding_batch_size=50, previous_embedding_api_key="older-secret")
    record = kept(tmp_path, former)
    written = (tmp_path / "model.json").read_text()
    assert not any(secret in written for secret in ("secret", "password", "key=k"))
    again = record.restore_settings(settings(HERE, "large", hybrid_cache_bytes=7_000_000))
    assert (again.embedder.kind, again.embedder.model, again.embedder.batch_size) == ("openai", "small", 50)
    assert again.hybrid.cache_bytes == 7_000_000, "settings of other components are the current ones"
    assert again.openai.base_url == HERE, "the endpoint of the model is restored"


@pytest.mark.parametrize(
    ("now", "former_key", "key"),
    [(HERE, None, "secret"), (ELSEWHERE, None, None), (ELSEWHERE, "older", "older"), (None, None, None)],
)
def test_an_api_key_is_only_sent_to_its_endpoint(
    tmp_path: Path, now: str | None, former_key: str | None, key: str | None
) -> None:
    again = kept(tmp_path, settings(HERE, "small")).restore_settings(
        settings(now, "large", previous_embedding_api_key=former_key)
    )
    assert (again.openai.api_key.get_secret_value() if again.openai.api_key else None) == key
    assert str(again.openai.base_url).endswith("models.example/v1") or now == HERE


def test_the_default_endpoint_is_recorded_by_its_url(tmp_path: Path) -> None:
    again = kept(tmp_path, settings(None, "small")).restore_settings(settings(HERE, "large"))
    assert again.openai.base_url == "https://api.openai.com/v1"


@pytest.mark.parametrize("written", ["", "{}", "[]", '{"collection": "c", "variables": 7}'])
def test_a_malformed_record_is_ignored(tmp_path: Path, written: str) -> None:
    (tmp_path / "model.json").write_text(written)
    assert read_model_record(tmp_path / "model.json") is None
    assert read_model_record(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    ("more_variables", "cause"),
    [({}, "provide the model small instead"), ({"NOMEMORY_REMOVED": "1"}, "unknown settings: NOMEMORY_REMOVED")],
    ids=["changed model", "removed setting"],
)
def test_previous_model_that_cannot_be_restored_is_unavailable(
    tmp_path: Path, more_variables: dict[str, str], cause: str
) -> None:
    class Now(DisabledEmbedder):
        kind = "scripted"

    directory, log = DataDirectory(tmp_path), LogPosition(LogIdentity("a log"), 1)
    backlog = Backlog(create_named_collection(settings(HERE, "large"), directory.vector_collections, "gone-8").backlog)
    backlog.record_log(log.identity.name)
    backlog.add_changes([ChangeRef(1, "u", "m")], FeedPosition.from_sequence(1))
    backlog.mark_applied(backlog.read_pending_messages([], 1))
    backlog.close()
    record = ModelRecord.from_settings(settings(HERE, "small"), "gone-8")
    changed = ModelRecord(record.collection, {**record.variables, **more_variables})
    write_model_record(directory.model_record, changed)
    now = settings(HERE, "large")
    with pytest.raises(PreviousModelUnavailableError, match=cause):
        restore_previous_model(now, directory, Now(8), log, ActiveFaults())
