"""Decoding of API requests from the path, the query string and the body of HTTP requests.

The body or the query string may repeat the value of a path field, but not contradict it. If the values could differ, a
proxy that authorizes requests by path could check another value than the server uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.http.http_rules import HttpRule
from nomemory.server.api.http.json_mapping import decode_message, parse_json, to_printable_key
from nomemory.server.api.http.query_string import build_query_document, parse_query_parameters
from nomemory.server.faults import Violation


def decode_request(rule: HttpRule, path_values: Mapping[str, str], query: bytes, body: bytes) -> ProtoMessage:
    """Decode the request of an API method.

    Raises:
        Fault: INVALID_FIELD, with all violations; MALFORMED_REQUEST, the body is not valid JSON in UTF-8.
    """
    message = rule.method.input_type
    parameters = parse_query_parameters(query)
    if rule.has_body:
        document = parse_json(body) if body else {}
        violations = [Violation(to_printable_key(name), "must be in the body") for name, _ in parameters]
    else:
        document, violations = build_query_document(parameters, message)
    if isinstance(document, dict):
        for name, value in path_values.items():
            violations += _put_path_value(document, name, message.fields_by_name[name].json_name, value)
    return decode_message(document, message, violations)


def _put_path_value(document: dict[str, Any], name: str, json_name: str, value: str) -> list[Violation]:
    repeated = [document.pop(key) for key in {name, json_name} & document.keys()]
    document[name] = value
    return [Violation(name, "must be equal to the value in the path") for other in repeated if other != value]
