"""Half a configuration of traces is refused, with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from nomemory.server.settings import Settings
from nomemory.server.tracing import factory
from nomemory.server.tracing.factory import TracingSettingsError, collector_of

LOCAL, FAR = "http://127.0.0.1:4317", "http://collector.example:4317"
REFUSED: Mapping[str, tuple[dict[str, object], str]] = {
    "headers and nowhere to send them": ({"otlp_headers": "a=b"}, "NOMEMORY_OTLP_HEADERS needs NOMEMORY_OTLP_ENDPOINT"),
    "certificates and nothing to check": ({"otlp_ca": "/ca.pem"}, "NOMEMORY_OTLP_CA needs NOMEMORY_OTLP_ENDPOINT"),
    "content and nowhere to send it": ({"trace_content": True}, "NOMEMORY_TRACE_CONTENT needs NOMEMORY_OTLP_ENDPOINT"),
    "an endpoint that is none": ({"otlp_endpoint": "127.0.0.1:4317"}, "must be http://HOST:PORT"),
    "an endpoint with a path": ({"otlp_endpoint": f"{LOCAL}/v1/traces"}, "must be http://HOST:PORT"),
    "an endpoint without a port": ({"otlp_endpoint": "http://127.0.0.1"}, "must be http://HOST:PORT"),
    "an endpoint with a port that is none": ({"otlp_endpoint": "http://127.0.0.1:x"}, "must be http://HOST:PORT"),
    "an endpoint with a password": ({"otlp_endpoint": "http://me:secret@127.0.0.1:1"}, "must be http://HOST:PORT"),
    "certificates without TLS": ({"otlp_endpoint": LOCAL, "otlp_ca": "/ca.pem"}, "NOMEMORY_OTLP_CA needs"),
    "headers that are none": ({"otlp_endpoint": LOCAL, "otlp_headers": "secret"}, "must be NAME=VALUE"),
    "unfilled headers": ({"otlp_endpoint": LOCAL, "otlp_headers": ""}, "must be NAME=VALUE"),
    "unfilled headers and nowhere to send them": ({"otlp_headers": ""}, "NOMEMORY_OTLP_HEADERS needs"),
    "empty headers": ({"otlp_endpoint": LOCAL, "otlp_headers": " "}, "must be NAME=VALUE"),
    "credentials in the clear": ({"otlp_endpoint": FAR, "otlp_headers": "a=b"}, "refusing to send spans"),
    "content in the clear": ({"otlp_endpoint": FAR, "trace_content": True}, "refusing to send spans"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_half_a_configuration_is_refused(case: str, own_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    changed, sentence = REFUSED[case]
    monkeypatch.setattr(factory, "find_spec", lambda _name: object())
    with pytest.raises(TracingSettingsError) as error:
        collector_of(own_settings.with_changes(**changed))
    assert sentence in str(error.value)
    assert "secret" not in str(error.value)


def test_without_the_package_a_server_says_what_to_install(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "find_spec", lambda _name: None)
    with pytest.raises(TracingSettingsError, match=r"pip install 'nomemory\[otel\]'"):
        collector_of(own_settings.with_changes(otlp_endpoint=LOCAL))


def test_without_an_endpoint_there_are_no_traces(own_settings: Settings) -> None:
    assert collector_of(own_settings) is None
    assert not own_settings.tracing.is_on


def test_a_collector_is_what_the_settings_say(
    own_settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factory, "find_spec", lambda _name: object())
    authority = tmp_path / "ca.pem"
    authority.write_bytes(b"certificate")
    far = own_settings.with_changes(
        otlp_endpoint="https://collector.example:4317/", otlp_ca=authority, otlp_headers="Api-Key=k=1,team=memory"
    )
    collector = collector_of(far)
    assert collector is not None
    assert (collector.target, collector.is_tls, collector.trusted) == ("collector.example:4317", True, b"certificate")
    assert collector.headers == (("api-key", "k=1"), ("team", "memory"))
