"""Tests for a model directory of the operator with `model.onnx` and `tokenizer.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from nomemory.cli.doctor.installation import check_embedder
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder, create_local_embedder
from nomemory.server.embedding.protocol import TextRejectedError
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

WORDS = ("[UNK]", "tea", "coffee", "ask:", "tell:")
STATES = np.array([[1, 1, 1], [3, 0, 0], [0, 4, 0], [0, 0, 5], [5, 5, 0]], "<f4")


def write_model(directory: Path, states: np.ndarray = STATES) -> Path:
    """Write a model whose token states are rows of a table, and a tokenizer with five words."""
    directory.mkdir(exist_ok=True)
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", states.shape[1]])
    (directory / "model.onnx").write_bytes(graph([gathered("last_hidden_state")], output, states=states))
    words = {"type": "WordLevel", "vocab": {word: number for number, word in enumerate(WORDS)}, "unk_token": WORDS[0]}
    tokenizer = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": words}
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    return directory


def gathered(output: str, tokens: str = "input_ids") -> NodeProto:
    return helper.make_node("Gather", ["states", tokens], [output])


def graph(
    nodes: list[NodeProto],
    output: ValueInfoProto,
    tokens: str = "input_ids",
    element: int = TensorProto.INT64,
    states: np.ndarray = STATES,
) -> bytes:
    """Return a model that looks up token states in a table."""
    inputs = [helper.make_tensor_value_info(tokens, element, ["texts", "tokens"])]
    table = numpy_helper.from_array(states, "states")
    made = helper.make_graph(nodes, "lookup", inputs, [output], [table])
    return helper.make_model(made, ir_version=10, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString()


def settings(directory: Path, **changed: object) -> Settings:
    return Settings.from_environment(embedding_model_dir=str(directory), **changed)


async def vectors(chosen: Settings, *texts: str) -> list[list[float]]:
    """Embed texts as documents, and the last one also as a query."""
    embedder = create_local_embedder(chosen)
    try:
        embeddings = [*await embedder.embed_documents(texts), await embedder.embed_query(texts[-1])]
    finally:
        await embedder.close()
    return [np.frombuffer(vector, "<f4").tolist() for vector in embeddings]


async def test_vectors_are_token_means_regardless_of_the_batch(tmp_path: Path) -> None:
    embeddings = await vectors(
        settings(write_model(tmp_path)), "tea", "tea coffee", "tea tea tea coffee milk", "coffee"
    )
    assert embeddings[0] == pytest.approx([1, 0, 0])
    assert embeddings[1] == pytest.approx([0.6, 0.8, 0])
    assert embeddings[3:] == [[0, 1, 0]] * 2


async def test_prefixes_and_pooling_are_configurable(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    prefixes = {"embedding_query_prefix": "ask: ", "embedding_document_prefix": "tell: "}
    document, query = await vectors(settings(directory, embedding_pooling="first", **prefixes), "tea")
    assert document == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert query == [0, 0, 1]
    assert await vectors(settings(directory, embedding_pooling="last", **prefixes), "tea") == [[1, 0, 0]] * 2


async def test_an_empty_text_has_a_vector(tmp_path: Path) -> None:
    prefix = {"embedding_document_prefix": "tea "}
    assert (await vectors(settings(write_model(tmp_path), **prefix), "", "tea"))[0] == [1, 0, 0]


def test_a_directory_model_is_selected_with_its_own_dimension(tmp_path: Path) -> None:
    chosen = choose_embedder(settings(write_model(tmp_path / "mine")))
    assert (chosen.kind, chosen.dimension) == ("local", 3)
    assert chosen.model.startswith("mine-")
    with pytest.raises(EmbedderSettingsError, match="3 dimensions"):
        choose_embedder(settings(tmp_path / "mine", embedding_dimension=384))


def test_settings_and_weights_that_change_vectors_change_the_model_name(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    names = [choose_embedder(settings(directory, **more)).model for more in ({}, {"embedding_pooling": "last"})]
    again = choose_embedder(settings(directory)).model
    write_model(tmp_path, STATES * np.array([1, 2, 3], "<f4"))
    assert again == names[0]
    assert len({*names, choose_embedder(settings(directory)).model}) == 3


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_directory_without_a_model_is_a_one_line_error(tmp_path: Path, missing: str) -> None:
    (write_model(tmp_path) / missing).unlink()
    with pytest.raises(EmbedderSettingsError, match=f"NOMEMORY_EMBEDDING_MODEL_DIR: .*: {missing} is missing"):
        choose_embedder(settings(tmp_path))


@pytest.mark.parametrize("broken", ["model.onnx", "tokenizer.json"])
def test_broken_model_is_a_one_line_error(tmp_path: Path, broken: str) -> None:
    (write_model(tmp_path) / broken).write_text("[]", encoding="utf-8")
    with pytest.raises(EmbedderSettingsError, match="NOMEMORY_EMBEDDING_MODEL_DIR") as refused:
        choose_embedder(settings(tmp_path))
    assert "\n" not in str(refused.value)


def test_doctor_reports_model_and_speed(tmp_path: Path) -> None:
    check = check_embedder(settings(write_model(tmp_path / "mine")))
    assert check.state == "ok"
    assert re.match(r"local: mine-\w+ from /.*/mine, 3 dimensions, \d+ texts per second, ", check.finding)
    (tmp_path / "mine" / "model.onnx").unlink()
    missing = check_embedder(settings(tmp_path / "mine"))
    assert (missing.state, "model.onnx is missing" in missing.finding) == ("fail", True)


def test_model_with_non_finite_vectors_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match=r"NOMEMORY_EMBEDDING_MODEL_DIR: .* must be finite"):
        choose_embedder(settings(write_model(tmp_path, STATES * np.nan)))


WHOLE = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["texts", "tokens", 3])
NO_EMBEDDERS = {
    "pixels": (graph([gathered("out", "pixels")], WHOLE, "pixels"), "unsupported inputs: pixels"),
    "small numbers": (graph([gathered("out")], WHOLE, element=TensorProto.INT32), "cannot be used: .*expected"),
    "numbers of tokens": (
        graph(
            [helper.make_node("Identity", ["input_ids"], ["out"])],
            helper.make_tensor_value_info("out", TensorProto.INT64, ["texts", "tokens"]),
        ),
        "output out has type ",
    ),
    "a sum": (
        graph(
            [gathered("all"), helper.make_node("ReduceSum", ["all"], ["out"], keepdims=0)],
            helper.make_tensor_value_info("out", TensorProto.FLOAT, []),
        ),
        "expected a vector per text or per token",
    ),
    "an operator of elsewhere": (
        graph([helper.make_node("Frobnicate", ["input_ids"], ["out"])], WHOLE),
        "cannot be used: .*Frobnicate",
    ),
}


@pytest.mark.parametrize("kind", NO_EMBEDDERS)
def test_graph_without_embedder_inputs_or_outputs_is_a_one_line_error(tmp_path: Path, kind: str) -> None:
    model, message = NO_EMBEDDERS[kind]
    (write_model(tmp_path) / "model.onnx").write_bytes(model)
    with pytest.raises(EmbedderSettingsError, match=f"NOMEMORY_EMBEDDING_MODEL_DIR: .*{message}") as refused:
        choose_embedder(settings(tmp_path))
    assert "Error:" not in str(refused.value)


def test_reranker_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match="a reranker, not an embedder"):
        choose_embedder(settings(write_model(tmp_path, STATES[:, :1] + 1)))


def test_tokenizer_with_ids_outside_the_vocabulary_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(EmbedderSettingsError, match=r"cannot be used: .*must be within"):
        choose_embedder(settings(write_model(tmp_path, STATES[:3])))


async def test_model_that_fails_on_most_texts_rejects_no_text(tmp_path: Path) -> None:
    states = STATES.copy()
    states[[0, 2]] = np.nan
    embedder = create_local_embedder(settings(write_model(tmp_path, states)))
    try:
        for embed in (embedder.embed_documents(["tea", "coffee"]), embedder.embed_query("coffee")):
            with pytest.raises(Fault) as failed:
                await embed
            assert failed.value.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    finally:
        await embedder.close()


async def test_text_without_a_usable_vector_is_rejected_if_others_have_one(tmp_path: Path) -> None:
    states = STATES.copy()
    states[2] = np.nan
    embedder = create_local_embedder(settings(write_model(tmp_path, states)))
    try:
        with pytest.raises(TextRejectedError):
            await embedder.embed_documents(["tea", "coffee"])
    finally:
        await embedder.close()


async def test_unknown_token_id_rejects_its_text_without_a_process_restart(tmp_path: Path) -> None:
    write_model(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    mark = {"id": 77, "content": "<mask>", "special": True} | dict.fromkeys(
        ("single_word", "lstrip", "rstrip", "normalized"), False
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer | {"added_tokens": [mark]}), encoding="utf-8")
    embedder = create_local_embedder(settings(tmp_path))
    try:
        await embedder.embed_documents(["hello"])
        processes = embedder.process_ids
        with pytest.raises(TextRejectedError) as refused:
            await embedder.embed_documents(["tea", "tea <mask>", "coffee"])
        assert refused.value.position == 1
        with pytest.raises(Fault) as failed:
            await embedder.embed_query("<mask>")
        assert failed.value.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
        assert embedder.process_ids == processes
    finally:
        await embedder.close()
