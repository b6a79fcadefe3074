"""Tests that chat model failures appear in the log, status, metrics, notes and `nomemory doctor`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cli.command_line import PLAIN
from click.testing import CliRunner, Result
from metrics.scraping import Scrape, scraped
from recall.llm.chat_script import (
    SECRET,
    Answer,
    ChatScript,
    answers,
    raw,
    running_script,
    says,
    status,
    usage_of,
)

from captured_logs import logged
from chat_messages import new_message
from nomemory.cli.main import nomemory
from nomemory.client import Client
from nomemory.server.runtime import active_faults
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import recall_service_pb2 as r
from running_server import Server, settings_without_embedder, started

QUESTION = "Do I eat spicy food?"
CONTENT = "I never eat spicy food."
MODELS_PAGE = Path(__file__).parent.parent.parent / "docs" / "models.md"
NOWHERE = "http://127.0.0.1:9/v1"
TIMEOUT_S = 2.0
FAILURES = "nomemory_chat_model_failures_total"
TOKENS = "nomemory_chat_model_tokens_total"
FAULTS = "nomemory_active_faults"
VALID = {"stop": True, "verdict": "insufficient"}
WHOLE_LOG = {"role": "any", "time_range": {"until": "2030-01-01T00:00:00Z"}}
SEARCH = {"tool": "lexical_search", "args": {"query_text": "food", "filter": WHOLE_LOG}}
LOOKUP = {"stop": False, "look_up": [SEARCH]}
LIMITED = status(429, retry_after="0")
UNCITED = {"stop": True, "verdict": "supported", "profile": [{"text": "x", "citations": []}]}


@dataclass(frozen=True)
class Scripted:
    """A server whose recalls use the scripted model."""

    script: ChatScript
    client: Client
    server: Server

    def recall(self, *script: Answer) -> r.RecallResponse:
        """Run a recall with these model replies, repeating the last one."""
        self.script.answers = list(script)
        return self.client.recall(QUESTION, user_id="sam")

    def faults(self) -> list[tuple[i.Component.ValueType, i.FaultKind.ValueType]]:
        """Return the active faults by component and kind."""
        return [(fault.component, fault.kind) for fault in self.client.status().faults]

    def scrape(self) -> Scrape:
        return scraped(self.server.http)


def settings_of(data: Path) -> Settings:
    return settings_without_embedder(
        data / "data", http_listen="127.0.0.1:0", recall_model="scripted", recall_model_timeout_s=TIMEOUT_S
    )


@contextmanager
def serving(data: Path, script: ChatScript, url: str) -> Iterator[Scripted]:
    """Run a server with the chat model at a URL, and one message."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_BASE_URL", url)
        environment.setenv("OPENAI_API_KEY", "none")
        with started(settings_of(data)) as server, Client(server.target) as client:
            written = client.write([new_message("sam", "1", CONTENT, 1_780_000_000)])
            client.lexical_search("sam", "spicy", at_least=written.write_token)
            yield Scripted(script, client, server)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scripted]:
    with running_script() as script, serving(tmp_path_factory.mktemp("scripted"), script, script.url) as scripted:
        yield scripted


@pytest.fixture
def scripted(running: Scripted) -> Scripted:
    """A server with a working model."""
    running.recall(answers(VALID))
    assert not running.faults()
    return running


@pytest.mark.parametrize(
    ("failing", "kind", "reason"),
    [
        pytest.param(status(500), "ERROR_STATUS", "the chat model returned status 500", id="500"),
        pytest.param(status(404), "ERROR_STATUS", "the chat model returned status 404", id="404"),
        pytest.param(status(401), "CREDENTIALS_REJECTED", "the chat model rejected the API key (status 401)", id="401"),
        pytest.param(None, "TIMEOUT", "the chat model did not answer in time", id="silent"),
        pytest.param(
            raw("<html>busy</html>"), "INVALID_RESPONSE", "the chat model returned an invalid response", id="html"
        ),
        pytest.param(raw("{}"), "INVALID_RESPONSE", "the chat model returned an invalid response", id="empty object"),
    ],
)
def test_a_failing_endpoint_is_reported_once_until_it_answers_again(
    scripted: Scripted, failing: Answer | None, kind: str, reason: str
) -> None:
    before = scripted.scrape()
    with logged(active_faults) as entries:
        for _ in range(2):
            reply = scripted.recall(failing or scripted.script.silence)
            assert f"{reason}; showing quotes instead" in [note.text for note in reply.limits.notes]
            assert [statement.text for statement in reply.memory_view.preferences] == [CONTENT]
        assert scripted.faults() == [(i.COMPONENT_CHAT_MODEL, i.FaultKind.Value(f"FAULT_KIND_{kind}"))]
        [fault] = scripted.client.status().faults
        failed = scripted.scrape()
        scripted.recall(answers(VALID))
    assert fault.detail == reason
    assert [(entry["event"], entry["component"], entry["kind"]) for entry in entries] == [
        ("fault raised", "chat-model", kind),
        ("fault cleared", "chat-model", kind),
    ]
    assert not any(text in str(entries) for text in (SECRET, QUESTION, CONTENT, "sam"))
    assert not scripted.faults()
    assert failed.value(FAILURES, kind=kind) - before.value(FAILURES, kind=kind) == 2
    assert failed.value(FAULTS, component="chat-model", kind=kind) == 1
    assert scripted.scrape().sum(FAULTS) == 0


@pytest.mark.parametrize(
    ("failing", "kind", "reason"),
    [
        pytest.param(says("They do not."), "INVALID_OUTPUT", "the chat model's output was invalid twice", id="prose"),
        pytest.param(says("{}"), "INVALID_OUTPUT", "the chat model's output was invalid twice", id="empty object"),
        pytest.param(LIMITED, "RATE_LIMITED", "the chat model returned status 429", id="429"),
    ],
)
def test_a_sporadic_failure_is_a_fault_after_three_in_a_row(
    scripted: Scripted, failing: Answer, kind: str, reason: str
) -> None:
    before = scripted.scrape()
    for _ in range(2):
        reply = scripted.recall(failing)
        assert f"{reason}; showing quotes instead" in [note.text for note in reply.limits.notes]
    scripted.recall(answers(VALID))
    for _ in range(2):
        scripted.recall(failing)
    assert not scripted.faults()
    scripted.recall(failing)
    assert scripted.faults() == [(i.COMPONENT_CHAT_MODEL, i.FaultKind.Value(f"FAULT_KIND_{kind}"))]
    assert scripted.scrape().value(FAILURES, kind=kind) - before.value(FAILURES, kind=kind) == 5


def test_the_fault_follows_the_kind_of_the_failure(scripted: Scripted) -> None:
    scripted.recall(status(500))
    scripted.recall(status(401))
    assert scripted.faults() == [(i.COMPONENT_CHAT_MODEL, i.FAULT_KIND_CREDENTIALS_REJECTED)]


def test_statements_without_a_valid_quote_are_counted_but_not_a_fault(scripted: Scripted) -> None:
    scripted.recall(status(500))
    reply = scripted.recall(answers(UNCITED))
    assert "no statement of the chat model had a valid quote; showing quotes instead" in [
        note.text for note in reply.limits.notes
    ]
    assert scripted.scrape().value(FAILURES, kind="NO_VALID_QUOTE") == 1
    assert not scripted.faults()


def test_too_short_deadline_is_counted_but_not_a_fault(scripted: Scripted) -> None:
    scripted.script.answers = [scripted.script.silence]
    with Client(scripted.server.target, timeout=TIMEOUT_S) as client:
        reply = client.recall(QUESTION, user_id="sam")
    assert reply.limits.planner == r.PLANNER_LLM_FALLBACK
    assert scripted.scrape().value(FAILURES, kind="DEADLINE") == 1
    assert not scripted.faults()


def test_status_names_the_fault_of_the_chat_model(scripted: Scripted) -> None:
    scripted.recall(status(500))
    result = run("status", "--target", scripted.server.target)
    assert "chat model: the chat model returned status 500" in result.stdout
    checks = {check["check"]: check for check in map(json.loads, doctor(scripted).stdout.splitlines())}
    assert checks["Server fault"]["state"] == "fail"
    assert "status 500" in checks["Server fault"]["finding"]


def test_unreachable_endpoint_is_a_fault_of_a_recall_only_server(tmp_path: Path) -> None:
    with running_script() as script, serving(tmp_path, script, NOWHERE) as scripted:
        reply = scripted.recall()
        assert "the chat model cannot be reached; showing quotes instead" in [note.text for note in reply.limits.notes]
        assert scripted.faults() == [(i.COMPONENT_CHAT_MODEL, i.FAULT_KIND_UNREACHABLE)]
        only = settings_of(tmp_path / "only").copy_with_changes(recall_upstream=scripted.server.target)
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("OPENAI_BASE_URL", NOWHERE)
            with started(only) as server, Client(server.target) as client:
                client.recall(QUESTION, user_id="sam")
                assert scraped(server.http).value(FAULTS, component="chat-model", kind="UNREACHABLE") == 1


def test_token_usage_is_summed_over_all_requests_of_a_recall(scripted: Scripted) -> None:
    before = scripted.scrape()
    usages = [usage_of(1_000, 20), usage_of(1_100, 3, 900), usage_of(1_200, 40, 1_024)]
    reply = scripted.recall(answers(LOOKUP, usages[0]), says("{}", usages[1]), answers(VALID, usages[2]))
    assert reply.limits.model_calls == 3
    assert reply.limits.token_usage == r.TokenUsage(prompt_tokens=3_300, completion_tokens=63, cached_tokens=1_924)
    after = scripted.scrape()
    for kind, count in (("prompt", 3_300), ("completion", 63), ("cached", 1_924)):
        assert after.value(TOKENS, kind=kind) - before.value(TOKENS, kind=kind) == count


def test_tokens_of_invalid_output_are_counted(scripted: Scripted) -> None:
    reply = scripted.recall(says("{}", usage_of(1_000, 1)))
    assert reply.limits.planner == r.PLANNER_LLM_FALLBACK
    assert reply.limits.token_usage == r.TokenUsage(prompt_tokens=2_000, completion_tokens=2)


def test_token_usage_is_unset_if_the_endpoint_does_not_report_it(scripted: Scripted) -> None:
    reply = scripted.recall(answers(VALID))
    assert reply.limits.model_calls == 1
    assert not reply.limits.HasField("token_usage")


def test_token_usage_over_http_is_a_json_number(scripted: Scripted) -> None:
    scripted.script.answers = [answers(VALID, usage_of(1_000, 20, 900))]
    url = f"{scripted.server.http}/v1/recall"
    reply = httpx.post(url, json={"question": QUESTION}, headers={"x-user-id": "sam"}, timeout=30).json()
    assert reply["limits"]["tokenUsage"] == {"promptTokens": 1_000, "completionTokens": 20, "cachedTokens": 900}


def test_explain_shows_the_tokens(scripted: Scripted) -> None:
    scripted.script.answers = [answers(VALID, usage_of(1_234, 56, 1_024))]
    result = run("recall", QUESTION, "--user", "sam", "--explain", "--target", scripted.server.target)
    assert result.exit_code == 0, result.output
    assert "1 model call · 1 message read · 1,234 prompt tokens (1,024 cached) · 56 completion tokens" in result.stdout


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(nomemory, arguments, env=PLAIN | {"COLUMNS": "200"} | environment)


def doctor(scripted: Scripted, **environment: str) -> Result:
    arguments = ("--json", "--data", "none", "--target", scripted.server.target)
    return run("doctor", *arguments, NOMEMORY_EMBEDDER="none", **environment)


@pytest.mark.parametrize(
    ("answer", "state", "finding", "advice"),
    [
        pytest.param(says('{"ok": true}', usage_of(20, 5)), "ok", "20 prompt tokens, 5 completion tokens", "", id="ok"),
        pytest.param(says('{"ok": true}'), "ok", "the endpoint reports no token usage", "", id="no usage"),
        pytest.param(says("Sure!"), "warn", "not the requested JSON object", "larger model", id="prose"),
        pytest.param(status(500), "fail", "returned status 500", "NOMEMORY_RECALL_MODEL", id="500"),
        pytest.param(status(401), "fail", "rejected the API key", "OPENAI_API_KEY", id="401"),
        pytest.param(LIMITED, "fail", "status 429", "quota", id="429"),
        pytest.param(None, "fail", "did not answer in time", "NOMEMORY_RECALL_MODEL_TIMEOUT_S", id="silent"),
        pytest.param(raw("<html>busy</html>"), "fail", "invalid response", "OPENAI_BASE_URL", id="html"),
        pytest.param(raw("{}"), "fail", "invalid response", "OPENAI_BASE_URL", id="empty object"),
    ],
)
def test_doctor_sends_a_small_request_to_the_chat_model(
    scripted: Scripted, answer: Answer | None, state: str, finding: str, advice: str
) -> None:
    scripted.script.answers = [answer or scripted.script.silence]
    scripted.script.bodies.clear()
    model = {"NOMEMORY_RECALL_MODEL": "scripted", "NOMEMORY_RECALL_MODEL_TIMEOUT_S": "1"}
    result = doctor(scripted, OPENAI_BASE_URL=scripted.script.url, **model)
    check = next(check for check in map(json.loads, result.stdout.splitlines()) if check["check"] == "Chat model")
    assert check["state"] == state
    assert check["finding"].startswith("scripted: ")
    assert finding in check["finding"]
    assert advice in check["advice"]
    assert result.exit_code == (1 if state == "fail" else 0)
    assert SECRET not in result.output
    assert len(scripted.script.prompts[0]) < 100


def test_doctor_names_an_endpoint_that_is_not_running(scripted: Scripted) -> None:
    result = doctor(scripted, OPENAI_BASE_URL=NOWHERE, NOMEMORY_RECALL_MODEL="scripted")
    check = next(check for check in map(json.loads, result.stdout.splitlines()) if check["check"] == "Chat model")
    assert (check["state"], check["finding"]) == ("fail", "scripted: the chat model cannot be reached")
    assert "OPENAI_BASE_URL" in check["advice"]


def test_documented_doctor_output_is_current(scripted: Scripted) -> None:
    [block] = re.findall("```\n(✗.*?)```", MODELS_PAGE.read_text("utf-8"), re.DOTALL)
    environment = {"OPENAI_BASE_URL": NOWHERE, "NOMEMORY_RECALL_MODEL": "Qwen/Qwen3-8B", "NOMEMORY_EMBEDDER": "none"}
    shown = run("doctor", "--data", "none", "--target", scripted.server.target, **environment).stdout
    assert " ".join(block.split()) in " ".join(shown.split())


def test_doctor_calls_no_model_if_recalls_use_none(scripted: Scripted) -> None:
    scripted.script.bodies.clear()
    model = {"OPENAI_BASE_URL": scripted.script.url, "NOMEMORY_RECALL_MODEL": "scripted"}
    for environment in ({}, {**model, "NOMEMORY_RECALL_PLANNER": "rules"}):
        assert '"Chat model"' not in doctor(scripted, **environment).stdout
    assert not scripted.script.bodies
