"""A model that fastembed knows by its name: here a small one, laid out as it keeps what it has downloaded."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from embedding.test_directory_model import vectors, write_model

from nomemory.cli.doctor.installation import check_embedder
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.named_models import DEFAULT_MODEL, PREFIXES, full_name, prefixes_of
from nomemory.server.settings import Settings

REVISION = "0123456789abcdef0123456789abcdef01234567"
GEMMA = "google/embeddinggemma-300m"
with_fastembed = pytest.mark.skipif(find_spec("fastembed") is None, reason="fastembed is not installed")


@pytest.fixture(autouse=True)
def _no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def write_download(models: Path, revision: str = REVISION) -> Path:
    """Write a model as it lies in fastembed's directory after it was downloaded."""
    kept = models / "fastembed" / "models--intfloat--multilingual-e5-small"
    snapshot = kept / "snapshots" / revision
    (snapshot / "onnx").mkdir(parents=True)
    write_model(snapshot)
    (snapshot / "model.onnx").rename(snapshot / "onnx" / "model.onnx")
    (kept / "refs").mkdir(exist_ok=True)
    (kept / "refs" / "main").write_text(revision, encoding="utf-8")
    configured = {"config": {"pad_token_id": 0}, "tokenizer_config": {"model_max_length": 16, "pad_token": "[UNK]"}}
    for name, content in {**configured, "special_tokens_map": {}}.items():
        (snapshot / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return snapshot


def settings(models: Path, **changed: object) -> Settings:
    return Settings.from_environment(embedder="fastembed", embedding_models=str(models), **changed)


def test_the_documented_models_have_prefixes_of_their_own() -> None:
    assert full_name("") == DEFAULT_MODEL
    assert full_name("EmbeddingGemma-300m") == GEMMA
    assert full_name("other/model") == "other/model"
    assert prefixes_of(GEMMA, "", "").query == "task: search result | query: "
    assert prefixes_of(DEFAULT_MODEL, "", "note: ").document == "note: "
    assert prefixes_of("other/model", "", "") == prefixes_of("minishlab/potion-multilingual-128M", "", "")


@pytest.mark.skipif(find_spec("fastembed") is not None, reason="fastembed is installed")
def test_without_the_package_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match=r"NOMEMORY_EMBEDDER=fastembed: .*nomemory\[fastembed\]"):
        choose_embedder(settings(tmp_path))
    assert "nomemory[fastembed]" in check_embedder(settings(tmp_path)).finding


@with_fastembed
async def test_it_embeds_queries_and_documents_behind_its_prefixes(tmp_path: Path) -> None:
    write_download(tmp_path)
    own = {"embedding_query_prefix": "ask: ", "embedding_document_prefix": "tell: "}
    *documents, query = await vectors(settings(tmp_path, **own), "tea", "coffee tea coffee tea", "tea")
    assert query == pytest.approx([3 / 34**0.5, 0, 5 / 34**0.5])
    assert documents[0] == documents[2] == pytest.approx([8 / 89**0.5, 5 / 89**0.5, 0])
    assert documents[1] == pytest.approx(np.array([11, 13, 0]) / 290**0.5)


@with_fastembed
def test_it_is_named_after_the_model_its_revision_and_its_prefixes(tmp_path: Path) -> None:
    write_download(tmp_path)
    first = choose_embedder(settings(tmp_path))
    assert (first.kind, first.dimension) == ("local", 3)
    assert first.model.startswith("multilingual-e5-small-")
    others = {choose_embedder(settings(tmp_path, embedding_query_prefix="ask: ")).model}
    write_download(tmp_path, REVISION[::-1])
    others.add(choose_embedder(settings(tmp_path)).model)
    assert len(others | {first.model}) == 3


@with_fastembed
def test_the_doctor_tells_which_model_it_is_from_where_and_how_fast(tmp_path: Path) -> None:
    snapshot = write_download(tmp_path)
    found = check_embedder(settings(tmp_path))
    assert (found.state, str(snapshot) in found.finding) == ("ok", True), found.finding
    assert "texts per CPU-second" in found.finding


@with_fastembed
def test_a_hub_out_of_reach_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match="the model hub cannot be reached") as refused:
        choose_embedder(settings(tmp_path))
    assert str(refused.value).startswith(f"NOMEMORY_EMBEDDER=fastembed: {DEFAULT_MODEL} is not in ")
    assert "\n" not in str(refused.value)
    assert check_embedder(settings(tmp_path)).state == "fail"


@with_fastembed
def test_a_hub_that_does_not_give_the_model_is_told_from_one_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.server_port}")
        with pytest.raises(EmbedderSettingsError, match="the model hub does not give it"):
            choose_embedder(settings(tmp_path))
        hub.shutdown()


@with_fastembed
def test_a_name_that_fastembed_does_not_know_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match="fastembed knows no model other/model"):
        choose_embedder(settings(tmp_path, embedding_model="other/model"))


@with_fastembed
def test_fastembed_knows_the_documented_models() -> None:
    from fastembed import TextEmbedding  # noqa: PLC0415 - an extra

    known = {each["model"].casefold() for each in TextEmbedding.list_supported_models()} | {DEFAULT_MODEL.casefold()}
    assert {name.casefold() for name in PREFIXES} <= known
