"""Generate docs/api.md, a page of the documentation site, from the API definition and its comments."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from contract_comments import PACKAGE, ROOT, collect_comments, load_contract
from generated_page import write_or_check_page
from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    MethodDescriptorProto,
    ServiceDescriptorProto,
)
from usage import show_help

PAGE: Final = ROOT / "docs" / "api.md"
HEAD: Final = """# The API

Every service, message and field of `nomemory.v1`. This page is generated from
[the API definition](../proto/nomemory/v1).
"""
COPULAS: Final = ("is ", "are ")
RPC_SUFFIXES: Final = ("Request", "Response")
SHORT: Final = 90
"""Comments of requests and responses with at most this many characters are omitted, because they repeat the comment of
the method."""
EXAMPLE: Final = re.compile(r'Example: \{"code": "(\w+)".*\}')
"""The example error in the comment of an error reason; the page keeps only its code."""
Comments = Mapping[str, str]


def render_page() -> str:
    """Render docs/api.md."""
    files = load_contract()
    comments_by_name = collect_comments(files)
    services = [
        line for file in files for service in file.service for line in _render_service(service, comments_by_name)
    ]
    messages = [
        line for file in files for message in file.message_type for line in _render_message(message, comments_by_name)
    ]
    enums = [line for file in files for enum in file.enum_type for line in _render_enum(enum, comments_by_name)]
    return "\n".join([HEAD, *services, "## Messages\n", *messages, "## Enums\n", *enums]).rstrip() + "\n"


def _render_service(service: ServiceDescriptorProto, comments_by_name: Comments) -> Iterator[str]:
    comment = comments_by_name.get(f"{PACKAGE}.{service.name}", "")
    yield f"## {service.name}\n\n{_remove_leading_name(service.name, comment)}\n"
    for method in service.method:
        yield from _render_method(
            service.name, method, comments_by_name.get(f"{PACKAGE}.{service.name}.{method.name}", "")
        )


def _render_method(service: str, method: MethodDescriptorProto, comment: str) -> Iterator[str]:
    request, response = _format_reference(method.input_type), _format_reference(method.output_type)
    streams = ("stream of " * method.client_streaming, "stream of " * method.server_streaming)
    rule = method.options.Extensions[annotations_pb2.http]
    path = f", {_format_http_rule(rule)}" if rule.WhichOneof("pattern") else ""
    yield f"### {service}.{method.name}\n\n{_remove_leading_name(method.name, comment)}\n"
    yield f"{streams[0]}{request} → {streams[1]}{response}{path}\n"


def _format_http_rule(rule: http_pb2.HttpRule) -> str:
    verb = rule.WhichOneof("pattern") or ""
    return f"`{verb.upper()} {getattr(rule, verb)}`"


def _render_message(message: DescriptorProto, comments_by_name: Comments) -> Iterator[str]:
    name = f"{PACKAGE}.{message.name}"
    comment = _remove_leading_name(message.name, comments_by_name.get(name, ""))
    is_shown = len(comment) > SHORT or not message.name.endswith(RPC_SUFFIXES)
    yield f"### {message.name}\n\n{comment}\n" if is_shown else f"### {message.name}\n"
    for field in message.field:
        comment = _remove_leading_name(field.name, _join_lines(comments_by_name.get(f"{name}.{field.name}", "")))
        yield f"- `{field.name}` ({_format_type(message, field)}): {comment}"
    if message.field:
        yield ""


def _remove_leading_name(name: str, comment: str) -> str:
    """Remove the leading element name from a comment, because the page already shows it."""
    if not comment.startswith((f"{name} ", f"{name}: ")):
        return comment
    rest = comment.removeprefix(name).removeprefix(":").lstrip()
    for word in COPULAS:
        rest = rest.removeprefix(word)
    return rest[:1].upper() + rest[1:]


def _format_type(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    for nested in message.nested_type:
        if nested.options.map_entry and field.type_name.endswith(f".{nested.name}"):
            key, value = nested.field
            return f"map of {_format_scalar(key)} to {_format_scalar(value)}"
    repeated = "list of " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return repeated + _format_scalar(field)


def _format_scalar(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return _format_reference(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _render_enum(enum: EnumDescriptorProto, comments_by_name: Comments) -> Iterator[str]:
    name = f"{PACKAGE}.{enum.name}"
    yield f"### {enum.name}\n\n{_remove_leading_name(enum.name, comments_by_name.get(name, ''))}\n"
    for value in enum.value:
        comment = EXAMPLE.sub(
            r"Code: `\1`.",
            _remove_leading_name(value.name, _join_lines(comments_by_name.get(f"{name}.{value.name}", ""))),
        )
        yield f"- `{value.name}`: {comment}"
    yield ""


def _join_lines(comment: str) -> str:
    return " ".join(comment.split())


def _format_reference(type_name: str) -> str:
    name = type_name.removeprefix(f".{PACKAGE}.")
    return f"`{name.removeprefix('.')}`" if name.startswith(".") else f"[{name}](#{name.lower()})"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(write_or_check_page(PAGE, render_page()))
