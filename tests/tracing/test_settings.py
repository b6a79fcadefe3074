"""Tests that an incomplete tracing configuration is rejected with advice."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack

import pytest

from nomemory.server.runtime import startup_errors as cannot_start
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.tracing.provider import TracingSettingsError, start_tracing

LOCAL, FAR = "http://127.0.0.1:4317", "http://collector.example:4317"
REFUSED: Mapping[str, tuple[dict[str, object], str]] = {
    "headers and nowhere to send them": (
        {"otlp_headers": "a=b"},
        "NOMEMORY_OTLP_HEADERS requires NOMEMORY_OTLP_ENDPOINT",
    ),
    "certificates and nothing to check": ({"otlp_ca": "/ca.pem"}, "NOMEMORY_OTLP_CA requires NOMEMORY_OTLP_ENDPOINT"),
    "content and nowhere to send it": (
        {"trace_content": True},
        "NOMEMORY_TRACE_CONTENT requires NOMEMORY_OTLP_ENDPOINT",
    ),
    "an endpoint that is none": ({"otlp_endpoint": "127.0.0.1:4317"}, "must be http://HOST:PORT"),
    "an endpoint with a path": ({"otlp_endpoint": f"{LOCAL}/v1/traces"}, "must be http://HOST:PORT"),
    "an endpoint without a port": ({"otlp_endpoint": "http://127.0.0.1"}, "must be http://HOST:PORT"),
    "an endpoint with a port that is none": ({"otlp_endpoint": "http://127.0.0.1:x"}, "must be http://HOST:PORT"),
    "an endpoint with a password": ({"otlp_endpoint": "http://me:secret@127.0.0.1:1"}, "must be http://HOST:PORT"),
    "certificates without TLS": ({"otlp_endpoint": LOCAL, "otlp_ca": "/ca.pem"}, "NOMEMORY_OTLP_CA requires"),
    "headers that are none": (
        {"otlp_endpoint": LOCAL, "otlp_headers": "secret"},
        "must be a comma-separated list of NAME=VALUE",
    ),
    "unfilled headers": ({"otlp_endpoint": LOCAL, "otlp_headers": ""}, "must be a comma-separated list of NAME=VALUE"),
    "unfilled headers and nowhere to send them": ({"otlp_headers": ""}, "NOMEMORY_OTLP_HEADERS requires"),
    "empty headers": ({"otlp_endpoint": LOCAL, "otlp_headers": " "}, "must be a comma-separated list of NAME=VALUE"),
    "credentials in the clear": ({"otlp_endpoint": FAR, "otlp_headers": "a=b"}, "refusing to send spans"),
    "content in the clear": ({"otlp_endpoint": FAR, "trace_content": True}, "refusing to send spans"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_incomplete_configuration_is_rejected(
    case: str, own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed, sentence = REFUSED[case]
    monkeypatch.setattr(cannot_start, "find_spec", lambda _name: object())
    with pytest.raises(TracingSettingsError) as error:
        start_tracing(own_settings.copy_with_changes(**changed), AsyncExitStack())
    assert sentence in str(error.value)
    assert "secret" not in str(error.value)


def test_tracing_is_disabled_without_an_endpoint(own_settings: Settings) -> None:
    assert start_tracing(own_settings, AsyncExitStack()) is None
    assert not own_settings.tracing.is_enabled


async def test_sampling_ratio_decides_if_callers_do_not(own_settings: Settings) -> None:
    parent = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    for parent_sampling in (True, False):
        changed = own_settings.copy_with_changes(
            otlp_endpoint=LOCAL,
            trace_sample_ratio=0.0,
            trace_parent_sampling=parent_sampling,
            trace_export_timeout_s=0.1,
        )
        async with AsyncExitStack() as stack:
            tracer = start_tracing(changed, stack)
            assert tracer is not None
            assert tracer.start_call("call", parent).span.is_recording() == parent_sampling
