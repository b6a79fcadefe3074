"""Tests for the output and errors of `scripts/compare_skills`."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli.command_line import PLAIN
from click.testing import CliRunner, Result
from rich.console import Console

from evaluation.asking import Answer, MethodResult
from evaluation.labeled_file import Question
from evaluation.skill_comparison import compare_skills, render_report
from nomemory.client import Client
from nomemory.client.messages import chat_message
from running_server import Server

SAMPLE = Path(__file__).parent.parent.parent / "sample"
SHOWN = Path(__file__).parent / "skill_comparison.txt"
DEFAULT = "nomemory-recall-default"
LATE = "---\nname: {name}\ndescription: Looks at the last day only.\n---\n## Defaults\n- time_range_default: P1D\n"
"""A skill that finds less, so that something changes."""


def run(*arguments: str | Path) -> Result:
    environment = PLAIN | {"NOMEMORY_EMBEDDER": "none"}
    return CliRunner().invoke(compare_skills, [str(argument) for argument in arguments], env=environment)


def late_skill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(LATE.format(name=folder.name), encoding="utf-8")
    return folder


@pytest.fixture
def late(tmp_path: Path) -> Path:
    return late_skill(tmp_path / "skills" / "late")


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Nine questions of the sample."""
    lines = (SAMPLE / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
    path = tmp_path / "few.questions.jsonl"
    path.write_text("".join(lines[::6]), encoding="utf-8")
    return path


def answers(*id_lists: tuple[str, ...]) -> list[Answer]:
    """Answer the three questions below; the last one is unanswerable."""
    results = [MethodResult(ids, verdict="SUPPORTED" if ids else "INSUFFICIENT") for ids in id_lists]
    return [Answer(question, item, 12.3, None) for question, item in zip(QUESTIONS, results, strict=True)]


QUESTIONS = [
    Question("q1", "u", f"我吃辣吗？\x1b[2J{'很长' * 40}", "food", frozenset({"m1", "m2"}), None),
    Question("q2", "u", "Where do I work?", "profile", frozenset({"m3"}), None),
    Question("q3", "u", "Which zebra did I buy?", "unanswerable", frozenset(), None),
]
ANSWERS = {
    DEFAULT: answers(("m1", "m9"), ("m3",), ("m9",)),
    "crm-sales-assistant": answers(("m9", "m2"), ("m3",), ()),
    "same": answers(("m1",), ("m3",), ("m9",)),
}


def test_text_output_matches_the_golden_file() -> None:
    console = Console(file=io.StringIO(), width=88, markup=False)
    for part in render_report(ANSWERS):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == SHOWN.read_text("utf-8").splitlines()
    assert "\x1b" not in console.file.getvalue()


def test_skills_given_by_name_and_by_folder_are_compared_on_the_sample(late: Path, few: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    named = late_skill(tmp_path / "more" / "named")
    result = run("--skill", DEFAULT, "--skill", late, "--skill", named.name, "--skills-dir", named.parent,
                 "--questions", few, "--messages", SAMPLE / "messages.jsonl", "--json", out)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert f"late against {DEFAULT}:" in result.stdout
    assert f"named against {DEFAULT}:" in result.stdout
    written = json.loads(out.read_text("utf-8"))
    assert list(written) == ["skills", "changes"]
    assert list(written["skills"]) == [DEFAULT, "late", "named"]
    default = written["skills"][DEFAULT]
    assert {"evidence_recall", "precision", "hit@1", "latency_p50_ms"} <= set(default["all"])
    assert set(default["categories"]) == set(written["skills"]["late"]["categories"])
    assert default["all"]["questions"] == 9
    assert list(written["changes"]) == ["late", "named"]
    assert written["changes"]["named"] == written["changes"]["late"]
    labeled = {
        splitline["question_id"]: splitline for splitline in map(json.loads, few.read_text("utf-8").splitlines())
    }
    assert written["changes"]["late"], "a skill restricted to one day must have a lower score"
    for change in written["changes"]["late"]:
        assert set(change) == {"question_id", "user_id", "category", "question", "gained", "lost"}
        assert {*change["gained"], *change["lost"]} <= set(labeled[change["question_id"]]["evidence"])
        assert not set(change["gained"]) & set(change["lost"])


def test_running_server_is_queried_for_the_question_users(server: Server, user: str, tmp_path: Path) -> None:
    with Client(server.target) as client:
        written = client.write(
            [chat_message(user_id=user, message_id="m1", ts=datetime.now(UTC), role="user", content="我对芒果过敏。")]
        )
        client.lexical_search(user, "芒果", at_least=written.write_token)
    questions = tmp_path / "q.jsonl"
    question_record = {
        "question_id": "q1",
        "user_id": user,
        "question": "我对什么过敏？",
        "category": "food",
        "evidence": ["m1"],
    }
    questions.write_text(json.dumps(question_record), encoding="utf-8")
    result = run("--skill", DEFAULT, "--questions", questions, "--target", server.target)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"^food +nomemory-recall-default +1 +1\.000 +1\.000 +1\.000", result.stdout, re.MULTILINE)
    assert "against" not in result.stdout
    unknown = run("--skill", "no-such", "--questions", questions, "--target", server.target)
    assert unknown.exit_code == 1
    assert "no-such" in unknown.stderr


def test_file_errors_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text('{"question_id": "q1", "user_id": "lin", "question": "?", "category": "c", "evidence": ["x"]}\n')
    result = run("--skill", DEFAULT, "--questions", path, "--messages", SAMPLE / "messages.jsonl")
    assert result.exit_code == 1
    assert f"{path}:1: evidence: this user has no message x" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--questions", "{few}"], "Missing option '--skill'"),
        (["--skill", "a"], "Missing option '--questions'"),
        (["--skill", "a", "--questions", "nowhere"], "does not exist"),
        (["--skill", "a", "--skill", "a", "--questions", "{few}"], "Several skills have the name a"),
        (["--skill", "{tmp}/nothing", "--questions", "{few}"], "SKILL.md is missing"),
        (["--skill", "{late}", "--questions", "{few}"], "pass the names of its skills"),
        (["--skill", "a", "--skills-dir", "{tmp}", "--questions", "{few}"], "pass the names of its skills"),
        (
            ["--skill", "a", "--questions", "{few}", "--messages", "{few}", "--target", "h:1"],
            "cannot be combined with --target",
        ),
        (["--skill", "a", "--questions", "{few}", "--json", "{tmp}/nowhere/out"], "does not exist"),
    ],
)
def test_invalid_arguments_are_usage_errors(
    arguments: list[str], complaint: str, late: Path, few: Path, tmp_path: Path
) -> None:
    result = run(*(argument.format(few=few, late=late, tmp=tmp_path) for argument in arguments))
    assert result.exit_code == 2, result.stderr
    assert complaint in " ".join(result.stderr.split())
