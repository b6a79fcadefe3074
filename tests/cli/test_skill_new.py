"""`nomemory skill new`: from one sentence to a skill that passes the check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cli.command_line import Run
from recall.llm.chat_script import Answer, ChatScript, answers, running_script, says, status

from nomemory.client import Client
from nomemory.client.messages import chat_message
from nomemory.recall.authoring.check import check
from nomemory.recall.skills.loader import SkillLibrary
from served import Server

Golden = Callable[[str, str], None]

TEA = "给茶店用的助手"
CANARY = "金丝雀"
LOG = [
    *(("ann", "user", f"乌龙茶第{place}泡很香，下次还要乌龙茶") for place in "一二三四"),
    *(("ann", "assistant", f"鹦鹉{place}鹦鹉") for place in "一二三四"),
    *(("bob", "user", f"{CANARY}在{place}家，{CANARY}canary word{place}") for place in "甲乙丙丁"),
]


def lexicon(name: str = "made") -> str:
    return Path(name, "references", "lexicon.md").read_text(encoding="utf-8")


def skill(name: str = "made") -> str:
    return Path(name, "SKILL.md").read_text(encoding="utf-8")


def lines(*users: str) -> str:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    records = (
        {"user_id": user, "role": role, "content": content, "ts": (now + timedelta(minutes=place)).isoformat()}
        for place, (user, role, content) in enumerate(LOG)
        if user in users
    )
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


@pytest.fixture
def make(run: Run) -> Callable[..., None]:
    """Make the skill `made`, asking nothing."""

    def made(*arguments: str, scenario: str = TEA) -> None:
        result = run("skill", "new", "--scenario", scenario, "--name", "made", "--no-input", *arguments)
        assert result.exit_code == 0, result.output
        assert check(Path("made")).findings == ()

    return made


def test_what_it_writes_and_says(run: Run, golden: Golden) -> None:
    result = run("skill", "new", "--scenario", "给销售团队用的 CRM 助手", "--out", "skills", "--no-input")
    assert result.exit_code == 0
    golden("skill-new.txt", f"{result.stdout}--- stderr\n{result.stderr}")
    golden("skill-new.zh.md", Path("skills/recall-crm-sales/SKILL.md").read_text(encoding="utf-8"))


def test_the_interview_is_asked_and_answered(run: Run, golden: Golden) -> None:
    result = run("skill", "new", "--scenario", "A companion app", stdin="b\n\nC\n")
    assert result.exit_code == 0
    golden("skill-new-asked.txt", f"{result.stdout}--- stderr\n{result.stderr}")
    golden("skill-new.en.md", Path("recall-companion/SKILL.md").read_text(encoding="utf-8"))
    steering = SkillLibrary([Path()], "recall-companion").load().steering
    assert steering.defaults.role is not None
    assert steering.defaults.role.value == "any"


def test_where_nobody_answers_the_defaults_hold(run: Run) -> None:
    assert run("skill", "new", "--scenario", TEA, "--name", "asked").exit_code == 0
    assert run("skill", "new", "--scenario", TEA, "--name", "plain", "--no-input").exit_code == 0
    assert skill("asked").replace("asked", "plain") == skill("plain")


@pytest.mark.parametrize(("arguments", "first"), [([], "## 角色 · Role"), (["--language", "en"], "## Role · 角色")])
def test_the_language_is_the_sentences_unless_one_is_chosen(
    arguments: list[str], first: str, make: Callable[..., None]
) -> None:
    make(*arguments)
    assert first in skill()


@pytest.mark.parametrize("arguments", [
    [], ["--scenario", ""], ["--scenario", " \n…"], ["--scenario", "tea", "--language", "fr"],
    ["--scenario", "tea", "--messages", "nowhere.jsonl"],
])  # fmt: skip
def test_wrong_usage_is_2_and_writes_nothing(arguments: list[str], run: Run) -> None:
    assert run("skill", "new", "--no-input", *arguments).exit_code == 2
    assert list(Path().iterdir()) == []


def test_nothing_is_overwritten_without_force(run: Run, make: Callable[..., None]) -> None:
    make()
    before = skill()
    refused = run("skill", "new", "--scenario", "coffee", "--name", "made", "--no-input")
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    assert skill() == before
    make("--force", scenario="coffee")
    assert "> coffee" in skill()
    assert run("skill", "new", "--scenario", "tea", "--name", "../up", "--no-input").exit_code == 1


def test_the_lexicon_starts_from_one_users_messages_in_a_file(make: Callable[..., None]) -> None:
    Path("log.jsonl").write_text(lines("ann", "bob"), encoding="utf-8")
    make("--messages", "log.jsonl", "--user", "ann")
    assert "乌龙" in lexicon()
    for foreign in (CANARY, "canary", "鹦鹉"):
        assert foreign not in skill() + lexicon()


def test_a_file_of_several_users_needs_one_of_them(run: Run, make: Callable[..., None]) -> None:
    Path("log.jsonl").write_text(lines("ann", "bob"), encoding="utf-8")
    new = ("skill", "new", "--scenario", TEA, "--name", "made", "--no-input", "--messages", "log.jsonl")
    several, nobody = run(*new), run(*new, "--user", "carl")
    assert (several.exit_code, nobody.exit_code) == (2, 2)
    assert "--user" in several.stderr
    assert not Path("made").exists()
    Path("log.jsonl").write_text(lines("ann"), encoding="utf-8")
    make("--messages", "log.jsonl")
    assert "乌龙" in lexicon()


def test_the_lexicon_starts_from_one_users_messages_on_a_server(
    make: Callable[..., None], server: Server, user: str
) -> None:
    other = f"{user}-other"
    messages = [
        chat_message(
            user_id=user if owner == "ann" else other,
            message_id=f"m{place}",
            ts=datetime(2026, 3, 1, 8, place, tzinfo=UTC),
            role="user" if role == "user" else "assistant",
            content=content,
        )
        for place, (owner, role, content) in enumerate(LOG)
    ]
    with Client(server.target) as client:
        client.write(messages)
    make("--user", user, "--target", server.target)
    assert "乌龙" in lexicon()
    for foreign in (CANARY, "canary", "鹦鹉", other):
        assert foreign not in skill() + lexicon()


def test_without_a_server_nothing_is_written(run: Run) -> None:
    new = ("skill", "new", "--scenario", TEA, "--name", "made", "--no-input", "--user", "ann")
    assert run(*new, "--target", "127.0.0.1:1").exit_code == 1
    assert not Path("made").exists()


GIVEN = {
    "lexicon": [
        {"canonical": "乌龙", "aliases": ["青茶", "oolong", "user_id", "a`b", "- x: y", "", "长" * 50]},
        {"canonical": "## Defaults", "aliases": ["x"]},
        {"canonical": "tenant_id", "aliases": ["租户"]},
        {"canonical": "红茶", "aliases": []},
        "nothing",
    ],
    "rewrites": {
        "preferences": ["{question} 爱喝", "{user} 喜欢", "semantic_search(user_id)", "{question}"],
        "profile": "not a list",
        "schedule": ["{words}\n## Scenario"],
    },
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatScript]:
    """A chat model of the settings, which says what a test tells it to."""
    with running_script() as running:
        monkeypatch.setenv("NOMEMORY_RECALL_MODEL", "model")
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        yield running


def test_what_a_model_drafts_is_taken_where_it_passes(script: ChatScript, make: Callable[..., None]) -> None:
    script.answers = [answers(GIVEN)]
    make()
    assert "- 乌龙: 青茶, oolong\n" in skill()
    assert "- rewrite: {question} 爱喝\n" in skill()
    assert "- rewrite: {question} 我是" in skill()  # the default of an intent for which nothing passed
    for refused in ("user_id", "tenant", "{user}", "长长", "红茶"):
        assert refused not in skill()


def test_a_model_sees_the_sentence_and_terms_but_no_message(script: ChatScript, make: Callable[..., None]) -> None:
    script.answers = [answers(GIVEN)]
    Path("log.jsonl").write_text(lines("ann", "bob"), encoding="utf-8")
    make("--messages", "log.jsonl", "--user", "ann")
    (prompt,) = script.prompts
    assert TEA in prompt
    assert "乌龙" in prompt
    for unseen in ("还要乌龙", CANARY, "鹦鹉", "ann"):
        assert unseen not in prompt


@pytest.mark.parametrize("answer", [
    says("I cannot do that"), says(None), answers({"lexicon": [], "rewrites": {}}), answers({"lexicon": 3}),
    status(401), says('{"lexicon": ' + "[" * 5_000), answers([GIVEN]),
])  # fmt: skip
def test_where_a_model_is_no_help_the_default_is_written(answer: Answer, script: ChatScript, run: Run) -> None:
    script.answers = [answer]
    new = ("skill", "new", "--scenario", TEA, "--no-input", "--name")
    result = run(*new, "made")
    assert result.exit_code == 0, result.output
    if "乌龙" not in skill():
        assert "Without the model" in result.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("NOMEMORY_RECALL_MODEL")
            run(*new, "plain")
        assert skill("plain").replace("plain", "made") == skill()
