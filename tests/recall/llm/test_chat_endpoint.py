"""Tests for the chat endpoint client with a local HTTP server."""

from __future__ import annotations

from pathlib import Path

import pytest
from recall.llm.chat_script import SECRET, Answer, Body, ChatScript, Reply, format_of, raw, says, status, usage_of

from nomemory.recall.llm.chat_model import ChatFailedError
from nomemory.recall.llm.client import ChatEndpoint, create_client
from nomemory.recall.llm.prompt import Prompt
from nomemory.recall.model.model_reading import ModelFailureKind, TokenUsage

SCHEMA = {"type": "object", "properties": {"stop": {"type": "boolean"}}}
PROMPT = Prompt("the rules", "the question", "next_call", SCHEMA)


@pytest.fixture(autouse=True)
def no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep clients from reading the certificates of this machine, which would take most of the time of each test."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


def knows(*formats: str, code: int = 400) -> Answer:
    """Return an endpoint that supports only some response formats."""

    def answer(body: Body) -> Reply:
        return (says("{}") if format_of(body) in formats else status(code))(body)

    return answer


async def test_request_requires_an_object_of_the_schema(script: ChatScript, endpoint: ChatEndpoint) -> None:
    script.answers = [says('{"stop": true}')]
    assert (await endpoint.ask(PROMPT)).text == '{"stop": true}'
    (body,) = script.bodies
    assert body["model"] == "model"
    assert body["temperature"] == 0
    assert body["max_tokens"] == 99
    assert body["messages"] == [
        {"role": "system", "content": "the rules"},
        {"role": "user", "content": "the question"},
    ]
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "next_call", "schema": SCHEMA}}
    assert script.keys == ["Bearer key"]


@pytest.mark.parametrize("code", [400, 404, 422])
async def test_endpoint_without_schema_support_is_asked_for_a_json_object(
    script: ChatScript, endpoint: ChatEndpoint, code: int
) -> None:
    script.answers = [knows("json_object", "plain", code=code)]
    assert (await endpoint.ask(PROMPT)).text == "{}"
    assert (await endpoint.ask(PROMPT)).text == "{}"
    assert script.formats == ["json_schema", "json_object", "json_object"]


async def test_endpoint_without_format_support_gets_no_response_format(
    script: ChatScript, endpoint: ChatEndpoint
) -> None:
    script.answers = [knows("plain")]
    assert (await endpoint.ask(PROMPT)).text == "{}"
    assert (await endpoint.ask(PROMPT)).text == "{}"
    assert script.formats == ["json_schema", "json_object", "plain", "plain"]


async def test_request_rejected_in_every_format_does_not_change_the_format(
    script: ChatScript, endpoint: ChatEndpoint
) -> None:
    script.answers = [knows()]
    with pytest.raises(ChatFailedError, match="status 400"):
        await endpoint.ask(PROMPT)
    script.answers = [says("{}")]
    await endpoint.ask(PROMPT)
    assert script.formats == ["json_schema", "json_object", "plain", "json_schema"]


async def test_model_specific_parameters_are_adapted_and_the_schema_kept(
    script: ChatScript, endpoint: ChatEndpoint
) -> None:
    script.answers = [status(400, "max_tokens"), status(400, "temperature"), says("{}")]
    await endpoint.ask(PROMPT)
    await endpoint.ask(PROMPT)
    assert script.formats == ["json_schema"] * 4
    for body in script.bodies[2:]:
        assert body["max_completion_tokens"] == 99
        assert not body.keys() & {"max_tokens", "temperature"}


@pytest.mark.parametrize("passing", [status(500), status(503), status(429, retry_after="0"), status(408)])
async def test_transient_errors_are_retried_once(script: ChatScript, endpoint: ChatEndpoint, passing: Answer) -> None:
    script.answers = [passing, says("{}")]
    assert (await endpoint.ask(PROMPT)).text == "{}"
    script.answers = [passing]
    with pytest.raises(ChatFailedError):
        await endpoint.ask(PROMPT)
    assert len(script.bodies) == 4


async def test_endpoint_call_ends_at_the_deadline(script: ChatScript, endpoint: ChatEndpoint) -> None:
    script.answers = [status(429, retry_after="11")]
    with pytest.raises(ChatFailedError, match="in time"):
        await endpoint.ask(PROMPT, within_s=0.2)
    assert len(script.bodies) == 1


@pytest.mark.parametrize("code", [401, 403])
async def test_rejected_key_is_not_retried(script: ChatScript, endpoint: ChatEndpoint, code: int) -> None:
    script.answers = [status(code)]
    with pytest.raises(ChatFailedError, match=str(code)):
        await endpoint.ask(PROMPT)
    assert len(script.bodies) == 1


async def test_unresponsive_endpoint_times_out(script: ChatScript, endpoint: ChatEndpoint) -> None:
    script.answers = [script.silence]
    with pytest.raises(ChatFailedError, match="in time"):
        await endpoint.ask(PROMPT, within_s=0.2)
    assert len(script.bodies) == 1


async def test_no_request_is_sent_after_the_deadline(script: ChatScript, endpoint: ChatEndpoint) -> None:
    with pytest.raises(ChatFailedError, match="no time for a call"):
        await endpoint.ask(PROMPT, within_s=0)
    assert script.bodies == []


async def test_unreachable_endpoint_is_a_failure() -> None:
    endpoint = ChatEndpoint(create_client("http://127.0.0.1:9/v1", None, 5), "model", timeout_s=5)
    with pytest.raises(ChatFailedError, match="cannot be reached"):
        await endpoint.ask(PROMPT)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(401), ModelFailureKind.CREDENTIALS_REJECTED),
        (status(403), ModelFailureKind.CREDENTIALS_REJECTED),
        (status(404), ModelFailureKind.ERROR_STATUS),
        (status(429, retry_after="0"), ModelFailureKind.RATE_LIMITED),
        (status(500), ModelFailureKind.ERROR_STATUS),
        (raw("<html>busy</html>"), ModelFailureKind.INVALID_RESPONSE),
        (raw("{}"), ModelFailureKind.INVALID_RESPONSE),
    ],
)
async def test_failure_kind_of_a_response(
    script: ChatScript, endpoint: ChatEndpoint, answer: Answer, kind: ModelFailureKind
) -> None:
    script.answers = [answer]
    with pytest.raises(ChatFailedError) as caught:
        await endpoint.ask(PROMPT)
    assert caught.value.failure.kind is kind


async def test_a_slow_model_times_out_unless_the_deadline_came_first(script: ChatScript) -> None:
    script.answers = [script.silence]
    async with create_client(script.url, "key", 10) as client:
        endpoint = ChatEndpoint(client, "model", timeout_s=0.2)
        for within_s, kind in ((None, ModelFailureKind.TIMEOUT), (0.1, ModelFailureKind.DEADLINE)):
            with pytest.raises(ChatFailedError) as caught:
                await endpoint.ask(PROMPT, within_s)
            assert caught.value.failure.kind is kind


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (usage_of(120, 30, cached=100), TokenUsage(120, 30, 100)),
        (usage_of(120, 30), TokenUsage(120, 30, 0)),
        ({**usage_of(120, 30), "prompt_tokens_details": None}, TokenUsage(120, 30, 0)),
        ({"prompt_tokens": 7}, TokenUsage(7, 0, 0)),
        ({}, None),
        (None, None),
        ("many", None),
        ({"prompt_tokens": "7", "completion_tokens": True}, None),
        ({"prompt_tokens": -7, "completion_tokens": 10**30}, None),
    ],
)
async def test_token_usage_is_read_if_the_endpoint_reports_it(
    script: ChatScript, endpoint: ChatEndpoint, usage: object, tokens: TokenUsage | None
) -> None:
    script.answers = [says("{}", usage)]
    assert (await endpoint.ask(PROMPT)).usage == tokens


@pytest.mark.parametrize("content", ["", "hello", "[]", "{}", '{"choices": []}', '{"choices": {"0": 1}}', "null"])
async def test_a_malformed_reply_is_a_failure(script: ChatScript, endpoint: ChatEndpoint, content: str) -> None:
    script.answers = [raw(content)]
    with pytest.raises(ChatFailedError, match="invalid response"):
        await endpoint.ask(PROMPT)


@pytest.mark.parametrize("choice", ["null", "{}", '{"message": null}', '{"message": {"content": null}}'])
async def test_empty_model_reply_is_an_empty_text(script: ChatScript, endpoint: ChatEndpoint, choice: str) -> None:
    script.answers = [raw(f'{{"choices": [{choice}]}}')]
    assert (await endpoint.ask(PROMPT)).text == ""


@pytest.mark.parametrize("code", [400, 401, 404, 418, 429, 500])
async def test_error_message_contains_no_user_text(script: ChatScript, endpoint: ChatEndpoint, code: int) -> None:
    script.answers = [status(code, SECRET)]
    with pytest.raises(ChatFailedError) as caught:
        await endpoint.ask(PROMPT)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
