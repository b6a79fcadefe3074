"""Tests for a model directory of the operator with `model.onnx` and `tokenizer.json`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from nomemory.cli.doctor.installation import check_embedder
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder, create_local_embedder
from nomemory.server.embedding.local import LocalEmbedder
from nomemory.server.embedding.local_model import OF_DIRECTORY, LocalModel, ModelResources, TextKind
from nomemory.server.embedding.protocol import TextRejectedError
from nomemory.server.embedding.vector import normalize_vector
from nomemory.server.faults import Fault, Reason
from nomemory.server.runtime.settings import Settings

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from nomemory.server.embedding.onnx import directory_model

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


def vectors_in_this_process(directory: Path, *texts: str, prefix: str = "", pooling: str = "mean") -> list[list[float]]:
    """Embed texts as documents."""
    arguments = (str(directory), "", prefix, pooling)
    model = directory_model.DirectoryModel(arguments, TextKind.DOCUMENT, ModelResources())
    return [np.frombuffer(normalize_vector(vector, 3), "<f4").tolist() for vector in model.encode(texts)]


def local_embedder(directory: Path) -> LocalEmbedder:
    """Return an embedder with a model that is not validated."""
    return LocalEmbedder(60, LocalModel("mine", 3, str(directory), (OF_DIRECTORY, str(directory), "", "", "mean")))


class Validation:
    """Validates models in this process, as the server does in a separate one."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def digest(self, directory: Path, pooling: str = "mean") -> str:
        directory_model.main([str(directory), "", "", pooling])
        return str(json.loads(self._capsys.readouterr().out)["digest"])

    def error(self, directory: Path) -> str:
        """Return the error message of a model that cannot be used."""
        try:
            self.digest(directory)
        except SystemExit as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - those of the libraries have no common base class
            sys.excepthook(type(error), error, None)
        return self._capsys.readouterr().err.removesuffix("\n")


@pytest.fixture
def validation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Validation:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # the validation replaces it
    return Validation(capsys)


def test_vectors_are_token_means_regardless_of_the_batch(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    embeddings = vectors_in_this_process(directory, "tea", "tea coffee", "tea tea tea coffee milk", "coffee")
    assert embeddings[0] == pytest.approx([1, 0, 0])
    assert embeddings[1] == pytest.approx([0.6, 0.8, 0])
    assert embeddings[3] == [0, 1, 0]


async def test_prefixes_and_pooling_are_configurable(tmp_path: Path) -> None:
    directory = write_model(tmp_path)
    prefixes = {"embedding_query_prefix": "ask: ", "embedding_document_prefix": "tell: "}
    document, query = await vectors(settings(directory, embedding_pooling="first", **prefixes), "tea")
    assert document == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert query == [0, 0, 1]
    assert vectors_in_this_process(directory, "tea", prefix="tell: ", pooling="last") == [[1, 0, 0]]


def test_an_empty_text_has_a_vector(tmp_path: Path) -> None:
    assert vectors_in_this_process(write_model(tmp_path), "", "coffee", prefix="tea ")[0] == [1, 0, 0]


def test_a_directory_model_is_selected_with_its_own_dimension(tmp_path: Path) -> None:
    chosen = choose_embedder(settings(write_model(tmp_path / "mine")))
    assert (chosen.kind, chosen.dimension) == ("local", 3)
    assert chosen.model.startswith("mine-")
    with pytest.raises(EmbedderSettingsError, match="3 dimensions"):
        choose_embedder(settings(tmp_path / "mine", embedding_dimension=384))


def test_settings_and_weights_that_change_vectors_change_the_model_name(tmp_path: Path, validation: Validation) -> None:
    directory = write_model(tmp_path / "mine")
    digest, other_pooling, again = (validation.digest(directory, pooling) for pooling in ("mean", "last", "mean"))
    assert again == digest
    assert choose_embedder(settings(directory)).model == f"mine-{digest[:12]}"
    write_model(directory, STATES * np.array([1, 2, 3], "<f4"))
    assert len({digest, other_pooling, validation.digest(directory)}) == 3


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_directory_without_a_model_is_a_one_line_error(tmp_path: Path, missing: str) -> None:
    (write_model(tmp_path) / missing).unlink()
    with pytest.raises(EmbedderSettingsError, match=f"NOMEMORY_EMBEDDING_MODEL_DIR: .*: {missing} is missing"):
        choose_embedder(settings(tmp_path))


def test_broken_model_is_a_one_line_error(tmp_path: Path) -> None:
    (write_model(tmp_path) / "model.onnx").write_text("[]", encoding="utf-8")
    with pytest.raises(EmbedderSettingsError, match=r"NOMEMORY_EMBEDDING_MODEL_DIR: .* cannot be used: ") as refused:
        choose_embedder(settings(tmp_path))
    assert "\n" not in str(refused.value)


def test_broken_tokenizer_is_a_one_line_error(tmp_path: Path, validation: Validation) -> None:
    (write_model(tmp_path) / "tokenizer.json").write_text("[]", encoding="utf-8")
    error = validation.error(tmp_path)
    assert error.startswith("the model or its tokenizer cannot be used: ")
    assert "\n" not in error


def test_doctor_reports_model_and_speed(tmp_path: Path) -> None:
    check = check_embedder(settings(write_model(tmp_path / "mine")))
    assert check.state == "ok"
    assert re.match(r"local: mine-\w+ from /.*/mine, 3 dimensions, \d+ texts per second, ", check.finding)
    (tmp_path / "mine" / "model.onnx").unlink()
    missing = check_embedder(settings(tmp_path / "mine"))
    assert (missing.state, "model.onnx is missing" in missing.finding) == ("fail", True)


def test_model_with_non_finite_vectors_is_rejected(tmp_path: Path, validation: Validation) -> None:
    assert "must be finite" in validation.error(write_model(tmp_path, STATES * np.nan))


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
def test_graph_without_embedder_inputs_or_outputs_is_a_one_line_error(
    tmp_path: Path, kind: str, validation: Validation
) -> None:
    model, message = NO_EMBEDDERS[kind]
    (write_model(tmp_path) / "model.onnx").write_bytes(model)
    error = validation.error(tmp_path)
    assert re.search(message, error)
    assert "Error:" not in error
    assert "\n" not in error


def test_reranker_model_is_rejected(tmp_path: Path, validation: Validation) -> None:
    assert "a reranker, not an embedder" in validation.error(write_model(tmp_path, STATES[:, :1] + 1))


def test_tokenizer_with_ids_outside_the_vocabulary_is_rejected(tmp_path: Path, validation: Validation) -> None:
    assert re.search(r"cannot be used: .*must be within", validation.error(write_model(tmp_path, STATES[:3])))


async def test_model_that_fails_on_most_texts_rejects_no_text(tmp_path: Path) -> None:
    states = STATES.copy()
    states[[0, 2]] = np.nan
    embedder = local_embedder(write_model(tmp_path, states))
    try:
        for embed in (embedder.embed_documents(["tea", "coffee"]), embedder.embed_query("coffee")):
            with pytest.raises(Fault) as failed:
                await embed
            assert failed.value.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
    finally:
        await embedder.close()


async def test_text_without_a_usable_vector_or_known_tokens_is_rejected_without_a_process_restart(
    tmp_path: Path,
) -> None:
    states = STATES.copy()
    states[2] = np.nan
    write_model(tmp_path, states)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    mark = {"id": 77, "content": "<mask>", "special": True} | dict.fromkeys(
        ("single_word", "lstrip", "rstrip", "normalized"), False
    )
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer | {"added_tokens": [mark]}), encoding="utf-8")
    embedder = local_embedder(tmp_path)
    try:
        await embedder.embed_documents(["hello"])
        processes = embedder.process_ids
        for unusable in ("coffee", "tea <mask>"):
            with pytest.raises(TextRejectedError) as refused:
                await embedder.embed_documents(["tea", unusable, "hello"])
            assert refused.value.position == 1
        with pytest.raises(Fault) as failed:
            await embedder.embed_query("<mask>")
        assert failed.value.reason == Reason.ERROR_REASON_EMBEDDER_UNAVAILABLE
        assert embedder.process_ids == processes
    finally:
        await embedder.close()
