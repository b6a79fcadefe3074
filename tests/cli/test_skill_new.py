"""`nomemory skill new`: from one sentence to a skill that passes the check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.command_line import Run
from recall.llm.chat_script import Answer, ChatScript, answers, running_script, says, status

from nomemory.recall.authoring.check import check
from nomemory.recall.skills.loader import SkillLibrary

Golden = Callable[[str, str], None]

TEA = "给茶店用的助手"


def skill(name: str = "made") -> str:
    return Path(name, "SKILL.md").read_text(encoding="utf-8")


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
    golden("skill-new.zh.md", Path("skills/recall-crm/SKILL.md").read_text(encoding="utf-8"))


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


def test_a_model_sees_the_sentence(script: ChatScript, make: Callable[..., None]) -> None:
    script.answers = [answers(GIVEN)]
    make()
    (prompt,) = script.prompts
    assert TEA in prompt


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
