"""Writes docs/api.md from the contract and its comments. With --check it only tells whether the page is up to date."""

from __future__ import annotations

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

PAGE: Final = ROOT / "docs" / "api.md"
HEAD: Final = """# The API

Every service, message and field of `nomemory.v1`, with what [the contract](../proto/nomemory/v1) says of it. This page
is generated from there by `scripts/gen_api_docs.py`.
"""
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
    yield f"## {service.name}\n\n{said.get(f'{PACKAGE}.{service.name}', '')}\n"
    for method in service.method:
        yield from _method(service.name, method, said.get(f"{PACKAGE}.{service.name}.{method.name}", ""))


def _method(service: str, method: MethodDescriptorProto, comment: str) -> Iterator[str]:
    asked, answered = _reference(method.input_type), _reference(method.output_type)
    streams = ("stream of " * method.client_streaming, "stream of " * method.server_streaming)
    yield f"### {service}.{method.name}\n\n{comment}\n"
    yield f"- takes: {streams[0]}{asked}\n- answers: {streams[1]}{answered}"
    rule = method.options.Extensions[annotations_pb2.http]
    yield f"{_http(rule)}\n" if rule.WhichOneof("pattern") else ""


def _http(rule: http_pb2.HttpRule) -> str:
    verb = rule.WhichOneof("pattern") or ""
    return f"- HTTP: `{verb.upper()} {getattr(rule, verb)}`"


def _message(message: DescriptorProto, said: Comments) -> Iterator[str]:
    name = f"{PACKAGE}.{message.name}"
    yield f"### {message.name}\n\n{said.get(name, '')}\n"
    if message.field:
        yield "| field | type | what it is |\n|---|---|---|"
        for field in message.field:
            comment = _one_line(said.get(f"{name}.{field.name}", ""))
            yield f"| `{field.name}` | {_type(message, field)} | {comment} |"
        yield ""


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
    yield f"### {enum.name}\n\n{said.get(name, '')}\n"
    yield "| value | number | what it means |\n|---|---|---|"
    for value in enum.value:
        yield f"| `{value.name}` | {value.number} | {_one_line(said.get(f'{name}.{value.name}', ''))} |"
    yield ""


def _one_line(comment: str) -> str:
    return " ".join(comment.split()).replace("|", "\\|")


def _reference(type_name: str) -> str:
    name = type_name.removeprefix(f".{PACKAGE}.")
    return f"`{name.removeprefix('.')}`" if name.startswith(".") else f"[{name}](#{name.lower()})"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
