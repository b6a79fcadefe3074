"""Tests for `scripts/bench_recall` from input files to results."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from evaluation.bench import bench_recall

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "bench_recall"
NOW = "2025-06-01T00:00:00Z"

CHINESE = ["我从小不吃辣，火锅只点清汤。", "我在成都做美术编辑。", "周五提醒我交房租。", "我的猫叫年糕。"]
ENGLISH = ["My sister plays the cello.", "I moved to Leeds in March.", "I am allergic to penicillin.", "Good night!"]


def message_rows(user: str, contents: Sequence[str]) -> list[dict[str, object]]:
    """Return one message per day in May, including one at the time of the questions."""
    made: list[dict[str, object]] = [
        {"user_id": user, "message_id": f"m{n}", "ts": f"2025-05-{n + 1:02}T08:00:00Z", "role": "user", "content": text}
        for n, text in enumerate(contents)
    ]
    return [*made, made[0] | {"message_id": "late", "ts": NOW}]


def question_rows(user: str, *questions: tuple[str, str, str]) -> list[dict[str, object]]:
    return [
        {
            "question_id": f"q{n}",
            "user_id": user,
            "question": text,
            "category": category,
            "evidence": evidence.split(),
            "answer": None,
            "now": NOW,
        }
        for n, (text, category, evidence) in enumerate(questions)
    ]


def write(folder: Path, name: str, records: Sequence[Mapping[str, object]]) -> None:
    text = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two small sets in Chinese and English with the same user id and an unanswerable question."""
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, "zh.messages", message_rows("u", CHINESE))
    endless = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 600))
    write(
        folder,
        "zh.questions",
        question_rows("u", ("我吃辣吗，火锅点什么？", "food", "m0"), (f"猫叫年糕{endless}", "cat", "m3")),
    )
    write(folder, "en.messages", message_rows("u", ENGLISH))
    write(
        folder,
        "en.questions",
        question_rows("u", ("Who plays the cello?", "family", "m0"), ("Which zebra did I buy?", "adversarial", "")),
    )
    return folder


def run_script(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | settings
    return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench_recall, arguments)


def test_every_set_is_measured_with_every_supported_method(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ("--data", data, "--json", out, "--charts", tmp_path)
    done = run_script(*arguments, NOMEMORY_EMBEDDER="none", NOMEMORY_API_KEYS="elsewhere")
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(out.read_text("utf-8"))
    assert set(written) == {"sets"}
    assert set(written["sets"]) == {"en", "zh"}
    assert "skipped: SemanticSearch on en" in done.stderr, "there is no embedder"
    for message in written["sets"].values():
        assert {"LexicalSearch", "Recall"} <= set(message)
        assert "SemanticSearch" not in message
        for method, figures in message.items():
            assert figures["all"]["hit@1"] == 1, (
                f"{method}: the message at `now` has the same words and must not be returned"
            )
            assert figures["all"]["recall@6"] == 1
            assert figures["all"]["latency_p50_ms"] > 0
    assert "LexicalSearch: en 1.000, zh 1.000." in (tmp_path / "quality.svg").read_text(encoding="utf-8")
    words = written["sets"]["zh"]["LexicalSearch"]
    assert set(words["categories"]) == {"food", "cat"}
    assert words["all"]["cut_questions"] == 0, "a question of 600 characters is searched by its frequent terms"
    assert written["sets"]["en"]["Recall"]["all"]["refused"] == 1
    assert "zh: 2 questions, 2 answerable" in done.stdout
    assert "en: answerability" in done.stdout
    is_offered = "HybridSearch" in written["sets"]["en"]
    assert is_offered != ("skipped: HybridSearch on en" in done.stderr)


def test_invalid_data_is_reported_before_a_server_starts(data: Path) -> None:
    with (data / "zh.questions.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"question_id": "q9"}\n')
    result = run("--data", str(data))
    assert result.exit_code == 1
    assert f"{data / 'zh.questions.jsonl'}:3: user_id: is required" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing option '--data'"),
        (["--data", "nowhere"], "does not exist"),
        (["--data", ".", "--methods", "Recall,Magic"], "unknown method: Magic"),
        (["--data", ".", "--json", "nowhere/out.json"], "the folder nowhere does not exist"),
        (["--data", ".", "--limit", "-1"], "--limit"),
    ],
)
def test_invalid_arguments_are_usage_errors(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
