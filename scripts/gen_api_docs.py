"""Writes docs/api.md, a page of the site, from the contract and its comments."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from contract_comments import PACKAGE, ROOT, comments, contract
from generated_page import keep
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

Every service, message and field of `nomemory.v1`. This page is made from
[the contract](../proto/nomemory/v1).
"""
LEFT_OUT_AFTER_A_NAME: Final = ("is ", "are ")
ROLES_IN_A_CALL: Final = ("Request", "Response")
SHORT: Final = 90
"""A comment of so few characters at a request or a reply says nothing that its method does not say."""
EXAMPLE: Final = re.compile(r'Example: \{"code": "(\w+)".*\}')
"""What an error looks like, in the comment of a reason; the page says its code alone."""
Comments = Mapping[str, str]


def page() -> str:
    """Make the page."""
    files = contract()
    said = comments(files)
    services = [line for file in files for service in file.service for line in _service(service, said)]
    messages = [line for file in files for message in file.message_type for line in _message(message, said)]
    enums = [line for file in files for enum in file.enum_type for line in _enum(enum, said)]
    return "\n".join([HEAD, *services, "## Messages\n", *messages, "## Enums\n", *enums]).rstrip() + "\n"


def _service(service: ServiceDescriptorProto, said: Comments) -> Iterator[str]:
    yield f"## {service.name}\n\n{_of(service.name, said.get(f'{PACKAGE}.{service.name}', ''))}\n"
    for method in service.method:
        yield from _method(service.name, method, said.get(f"{PACKAGE}.{service.name}.{method.name}", ""))


def _method(service: str, method: MethodDescriptorProto, comment: str) -> Iterator[str]:
    asked, answered = _reference(method.input_type), _reference(method.output_type)
    streams = ("stream of " * method.client_streaming, "stream of " * method.server_streaming)
    rule = method.options.Extensions[annotations_pb2.http]
    path = f", {_http(rule)}" if rule.WhichOneof("pattern") else ""
    yield f"### {service}.{method.name}\n\n{_of(method.name, comment)}\n"
    yield f"{streams[0]}{asked} → {streams[1]}{answered}{path}\n"


def _http(rule: http_pb2.HttpRule) -> str:
    verb = rule.WhichOneof("pattern") or ""
    return f"`{verb.upper()} {getattr(rule, verb)}`"


def _message(message: DescriptorProto, said: Comments) -> Iterator[str]:
    name = f"{PACKAGE}.{message.name}"
    comment = _of(message.name, said.get(name, ""))
    says_more = len(comment) > SHORT or not message.name.endswith(ROLES_IN_A_CALL)
    yield f"### {message.name}\n\n{comment}\n" if says_more else f"### {message.name}\n"
    for field in message.field:
        comment = _of(field.name, _one_line(said.get(f"{name}.{field.name}", "")))
        yield f"- `{field.name}` ({_type(message, field)}): {comment}"
    if message.field:
        yield ""


def _of(name: str, comment: str) -> str:
    """Return a comment without the name that it begins with, which stands above it or before it on the page."""
    if not comment.startswith((f"{name} ", f"{name}: ")):
        return comment
    rest = comment.removeprefix(name).removeprefix(":").lstrip()
    for word in LEFT_OUT_AFTER_A_NAME:
        rest = rest.removeprefix(word)
    return rest[:1].upper() + rest[1:]


def _type(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    for nested in message.nested_type:
        if nested.options.map_entry and field.type_name.endswith(f".{nested.name}"):
            key, value = nested.field
            return f"map of {_scalar(key)} to {_scalar(value)}"
    repeated = "list of " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return repeated + _scalar(field)


def _scalar(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return _reference(field.type_name)
    return FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()


def _enum(enum: EnumDescriptorProto, said: Comments) -> Iterator[str]:
    name = f"{PACKAGE}.{enum.name}"
    yield f"### {enum.name}\n\n{_of(enum.name, said.get(name, ''))}\n"
    for value in enum.value:
        comment = EXAMPLE.sub(r"Code: `\1`.", _of(value.name, _one_line(said.get(f"{name}.{value.name}", ""))))
        yield f"- `{value.name}`: {comment}"
    yield ""


def _one_line(comment: str) -> str:
    return " ".join(comment.split())


def _reference(type_name: str) -> str:
    name = type_name.removeprefix(f".{PACKAGE}.")
    return f"`{name.removeprefix('.')}`" if name.startswith(".") else f"[{name}](#{name.lower()})"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(keep(PAGE, page()))
