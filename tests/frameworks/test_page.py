"""Tests for the examples in docs/frameworks.md with the real packages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from frameworks.chat_model import chat_model, says, wants
from frameworks.sample_messages import PEANUTS
from recall.llm.chat_script import ChatScript

from running_server import Server

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"\n## ([^\n]+)\n[^#]*?```python\n(.*?)```", PAGE, re.DOTALL))
PACKAGES = {
    "OpenAI function calling": "openai",
    "OpenAI Agents SDK": "agents",
    "LangChain": "langchain_core",
    "LangGraph": "langgraph.store.base",
    "LlamaIndex": "llama_index.core",
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatScript]:
    """A chat model that recalls before it answers, at the configured OpenAI URL."""
    with chat_model() as script:
        script.answers = [wants("recall", {"query": "What can I not eat?"}), says("You are allergic to peanuts.")]
        monkeypatch.setenv("OPENAI_BASE_URL", script.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield script


def test_the_page_has_an_example_for_every_framework() -> None:
    assert set(EXAMPLES) == set(PACKAGES)


@pytest.mark.parametrize("framework", PACKAGES)
def test_documented_example_finds_the_message(
    framework: str, server: Server, ann: str, script: ChatScript, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip(PACKAGES[framework], reason="scripts/check_frameworks installs it")
    if framework == "OpenAI Agents SDK":
        package.set_default_openai_api("chat_completions")  # the API of the model in this test
        package.set_tracing_disabled(True)
    shown = EXAMPLES[framework].replace("127.0.0.1:7700", server.target).replace('"ann"', f'"{ann}"')
    exec(compile(shown, "frameworks.md", "exec"), {"__name__": "__main__"})  # noqa: S102 - the page's own words
    output = capsys.readouterr().out
    assert "allergic to peanuts" in output
    if script.bodies:
        assert PEANUTS in str(script.bodies[-1]["messages"])


def test_every_framework_extra_is_documented_installed_and_pinned() -> None:
    project = tomllib.loads((ROOT / "clients" / "python" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    script = (ROOT / "scripts" / "check_frameworks").read_text(encoding="utf-8")
    pinned = (ROOT / "constraints-frameworks.txt").read_text(encoding="utf-8")
    installed = re.search(r"^frameworks=\((.*)\)$", script, re.MULTILINE)
    assert installed
    assert set(installed[1].split()) == set(project["optional-dependencies"])
    for extra, (package,) in project["optional-dependencies"].items():
        assert f"`nomemory-client[{extra}]`" in PAGE
        assert f"\n{package.partition('>=')[0]}==" in pinned
