"""Tests for `nomemory skill new`, which creates a valid skill from a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli.command_line import Run
from recall.llm.chat_script import Answer, ChatScript, answers, running_script, says, status

from nomemory.recall.authoring.check import check_skill

Golden = Callable[[str, str], None]

TEA = "给茶店用的助手"


def skill(name: str = "made") -> str:
    return Path(name, "SKILL.md").read_text(encoding="utf-8")


@pytest.fixture
def make(run: Run) -> Callable[..., None]:
    """Create the skill `made` without prompting."""

    def made(*arguments: str, scenario: str = TEA) -> None:
        result = run("skill", "new", "--scenario", scenario, "--name", "made", *arguments)
        assert result.exit_code == 0, result.output
        assert check_skill(Path("made")).findings == ()

    return made


def test_skill_new_writes_a_chinese_skill_and_prints_next_steps(run: Run, golden: Golden) -> None:
    result = run("skill", "new", "--scenario", "给销售团队用的 CRM 助手", "--out", "skills")
    assert result.exit_code == 0
    golden("skill-new.txt", f"{result.stdout}--- stderr\n{result.stderr}")
    golden("skill-new.zh.md", Path("skills/recall-crm/SKILL.md").read_text(encoding="utf-8"))


def test_english_scenario_yields_an_english_skill(run: Run, golden: Golden) -> None:
    assert run("skill", "new", "--scenario", "A companion app").exit_code == 0
    golden("skill-new.en.md", Path("recall-companion/SKILL.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("arguments", "first"), [([], "## 角色 · Role"), (["--language", "en"], "## Role · 角色")])
def test_skill_language_defaults_to_that_of_the_sentence(
    arguments: list[str], first: str, make: Callable[..., None]
) -> None:
    make(*arguments)
    assert first in skill()


@pytest.mark.parametrize("arguments", [
    [], ["--scenario", ""], ["--scenario", " \n…"], ["--scenario", "tea", "--language", "fr"],
])  # fmt: skip
def test_usage_error_exits_with_2_and_writes_nothing(arguments: list[str], run: Run) -> None:
    assert run("skill", "new", *arguments).exit_code == 2
    assert list(Path().iterdir()) == []


def test_an_existing_skill_is_not_overwritten(run: Run, make: Callable[..., None]) -> None:
    make()
    before = skill()
    refused = run("skill", "new", "--scenario", "coffee", "--name", "made")
    assert refused.exit_code == 1
    assert "already exists" in refused.stderr
    assert skill() == before
    assert run("skill", "new", "--scenario", "tea", "--name", "../up").exit_code == 1


MODEL_DRAFT = {
    "lexicon": [
        {"canonical": "乌龙", "aliases": ["青茶", "oolong", "user_id", "a`b", "- x: y", "", "长" * 50]},
        {"canonical": "## Defaults", "aliases": ["x"]},
        {"canonical": "tenant_id", "aliases": ["租户"]},
        {"canonical": "红茶", "aliases": []},
        "nothing",
    ]
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatScript]:
    """A configured chat model with scripted replies."""
    with running_script() as running:
        monkeypatch.setenv("NOMEMORY_RECALL_MODEL", "model")
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        yield running


def test_a_valid_model_draft_is_written(script: ChatScript, make: Callable[..., None]) -> None:
    script.answers = [answers(MODEL_DRAFT)]
    make()
    assert Path("made", "references", "lexicon.md").read_text(encoding="utf-8") == "- 乌龙: 青茶, oolong\n"


def test_model_prompt_contains_the_sentence(script: ChatScript, make: Callable[..., None]) -> None:
    script.answers = [answers(MODEL_DRAFT)]
    make()
    (prompt,) = script.prompts
    assert TEA in prompt


@pytest.mark.parametrize("answer", [
    says("I cannot do that"), says(None), answers({"lexicon": []}), answers({"lexicon": 3}),
    status(401), says('{"lexicon": ' + "[" * 5_000), answers([MODEL_DRAFT]),
])  # fmt: skip
def test_an_unusable_model_draft_falls_back_to_the_default(answer: Answer, script: ChatScript, run: Run) -> None:
    script.answers = [answer]
    new = ("skill", "new", "--scenario", TEA, "--name")
    result = run(*new, "made")
    assert result.exit_code == 0, result.output
    if not Path("made", "references").exists():
        assert "The lexicon was not drafted" in result.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("NOMEMORY_RECALL_MODEL")
            run(*new, "plain")
        assert skill("plain").replace("plain", "made") == skill()
