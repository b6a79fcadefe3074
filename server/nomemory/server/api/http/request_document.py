"""The request of a method, from the path, the query and the body of an HTTP request.

Every field comes from one place. A field of the path may be repeated in the body or the query only with the same value:
a proxy in front of the server and the server itself must never read different values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message as ProtoMessage

from nomemory.server.api.http.http_rules import HttpRule
from nomemory.server.api.http.json_mapping import decode, load, quotable
from nomemory.server.api.http.query_string import query_document, query_parameters
from nomemory.server.faults import Violation


def decode_request(rule: HttpRule, path_values: Mapping[str, str], query: bytes, body: bytes) -> ProtoMessage:
    """Return the request of a method.

    Args:
        rule: how HTTP calls the method.
        path_values: the values of the fields in the path.
        query: the query of the URL.
        body: the JSON of the body; empty: there is none.

    Raises:
        Fault: INVALID_FIELD, with every violation; MALFORMED_REQUEST, the body is not JSON, or the query is not UTF-8.
    """
    message = rule.method.input_type
    parameters = query_parameters(query)
    if rule.has_body:
        document = load(body) if body else {}
        violations = [Violation(quotable(name), "must be in the body") for name, _ in parameters]
    else:
        document, violations = query_document(parameters, message)
    if isinstance(document, dict):
        for name, value in path_values.items():
            violations += _put_path_value(document, name, message.fields_by_name[name].json_name, value)
    return decode(document, message, violations)


def _put_path_value(document: dict[str, Any], name: str, json_name: str, value: str) -> list[Violation]:
    repeated = [document.pop(key) for key in {name, json_name} & document.keys()]
    document[name] = value
    return [Violation(name, "differs from the path") for other in repeated if other != value]
