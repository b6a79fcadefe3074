"""Tests for the selection of the embedder by the settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nomemory.server.embedding import factory as choose
from nomemory.server.embedding.factory import DisabledEmbedder, EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.local import EMBEDDER_HINT
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings


def settings(**changed: object) -> Settings:
    return Settings.from_environment(**changed)


@pytest.fixture
def _no_local_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "is_local_model_available", lambda: False)


@pytest.fixture
def _local_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "is_local_model_available", lambda: True)


@pytest.mark.usefixtures("_local_package")
@pytest.mark.parametrize("embedder", ["auto", "local"])
def test_auto_selects_the_installed_local_model(embedder: str) -> None:
    chosen = choose_embedder(settings(embedder=embedder))
    assert (chosen.kind, chosen.model, chosen.dimension) == ("local", "multilingual-e5-small-int8", 384)


@pytest.mark.usefixtures("_no_local_package")
def test_without_the_local_model_auto_selects_none_and_local_is_rejected() -> None:
    chosen = choose_embedder(settings(embedder="auto"))
    assert (chosen.kind, chosen.dimension) == ("none", 384)
    with pytest.raises(EmbedderSettingsError, match="NOMEMORY_EMBEDDER=openai") as refused:
        choose_embedder(settings(embedder="local"))
    assert str(refused.value) == EMBEDDER_HINT
    assert "\n" not in EMBEDDER_HINT


@pytest.mark.usefixtures("_local_package")
def test_local_model_works_without_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 3_999_999)  # a user id without a name
    assert choose_embedder(settings(embedder="local")).kind == "local"


@pytest.mark.usefixtures("_local_package")
def test_local_model_has_a_fixed_dimension() -> None:
    with pytest.raises(EmbedderSettingsError, match="384"):
        choose_embedder(settings(embedder="local", embedding_dimension=512))


def test_none_embedder_accepts_caller_vectors_of_any_dimension() -> None:
    assert choose_embedder(settings(embedder="none")).dimension == 384
    assert choose_embedder(settings(embedder="none", embedding_dimension=8)).dimension == 8


def test_openai_embedder_requires_model_and_dimension() -> None:
    for incomplete in ({"embedding_model": "bge"}, {"embedding_dimension": 8}):
        with pytest.raises(EmbedderSettingsError, match="NOMEMORY_EMBEDDING_MODEL and NOMEMORY_EMBEDDING_DIMENSION"):
            choose_embedder(settings(embedder="openai", **incomplete))
    chosen = choose_embedder(settings(embedder="openai", embedding_model="bge", embedding_dimension=8))
    assert (chosen.kind, chosen.model, chosen.dimension) == ("openai", "bge", 8)


async def test_none_embedder_rejects_every_text() -> None:
    embedder = DisabledEmbedder(8)
    for call in (embedder.embed_query("tea"), embedder.embed_documents(["tea"])):
        with pytest.raises(Fault) as refused:
            await call
        assert refused.value.reason == Reason.ERROR_REASON_EMBEDDER_DISABLED
    await embedder.close()


def test_server_process_does_not_import_onnxruntime() -> None:
    code = "import sys, nomemory.server.embedding.factory; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
