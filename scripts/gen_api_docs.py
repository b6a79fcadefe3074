"""Writes docs/api.md from the contract and its comments. With --check it only tells whether the page is up to date."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from generated_page import keep
from google.api import annotations_pb2, http_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "api.md"
HEAD: Final = """# The API

Every service, message and field of `nomemory.v1`, with what [the contract](../proto/nomemory/v1) says of it. This page
is generated from there by `scripts/gen_api_docs.py`.
"""
_PACKAGE: Final = ".nomemory.v1."
_SERVICE, _MESSAGE, _ENUM = 6, 4, 5
_METHOD, _FIELD, _VALUE = 2, 2, 2
"""Numbers of fields in descriptors: the paths under which comments stand are made of them."""
_Path = tuple[int, ...]
Comments = Mapping[_Path, str]


def page() -> str:
    """Make the page."""
    files = [file for file in _contract().file if file.package == "nomemory.v1"]
    services = [line for file in files for line in _services(file)]
    messages = [line for file in files for line in _messages(file)]
    enums = [line for file in files for line in _enums(file)]
    return "\n".join([HEAD, *services, "## Messages\n", *messages, "## Enums\n", *enums]).rstrip() + "\n"


def _contract() -> FileDescriptorSet:
    buf = Path(sys.executable).with_name("buf")
    image = subprocess.run([buf, "build", "--output", "-"], cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - ours
    return FileDescriptorSet.FromString(image.stdout)


def _services(file: FileDescriptorProto) -> Iterator[str]:
    said = _comments(file)
    for number, service in enumerate(file.service):
        yield f"## {service.name}\n\n{said.get((_SERVICE, number), '')}\n"
        for place, method in enumerate(service.method):
            yield from _method(service.name, method, said.get((_SERVICE, number, _METHOD, place), ""))


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


def _messages(file: FileDescriptorProto) -> Iterator[str]:
    said = _comments(file)
    for number, message in enumerate(file.message_type):
        if message.options.map_entry:
            continue
        yield f"### {message.name}\n\n{said.get((_MESSAGE, number), '')}\n"
        if message.field:
            yield "| field | type | what it is |\n|---|---|---|"
            yield from _fields(message, number, said)
            yield ""


def _fields(message: DescriptorProto, number: int, said: Comments) -> Iterator[str]:
    for place, field in enumerate(message.field):
        comment = _one_line(said.get((_MESSAGE, number, _FIELD, place), ""))
        yield f"| `{field.name}` | {_type(message, field)} | {comment} |"


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


def _enums(file: FileDescriptorProto) -> Iterator[str]:
    said = _comments(file)
    for number, enum in enumerate(file.enum_type):
        yield f"### {enum.name}\n\n{said.get((_ENUM, number), '')}\n"
        yield "| value | number | what it means |\n|---|---|---|"
        yield from _values(enum, number, said)
        yield ""


def _values(enum: EnumDescriptorProto, number: int, said: Comments) -> Iterator[str]:
    for place, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {_one_line(said.get((_ENUM, number, _VALUE, place), ''))} |"


def _comments(file: FileDescriptorProto) -> Comments:
    return {tuple(one.path): _trimmed(one.leading_comments.splitlines()) for one in file.source_code_info.location}


def _trimmed(lines: Iterable[str]) -> str:
    return "\n".join(line.removeprefix(" ").rstrip() for line in lines).strip()


def _one_line(comment: str) -> str:
    return " ".join(comment.split()).replace("|", "\\|")


def _reference(type_name: str) -> str:
    name = type_name.removeprefix(_PACKAGE)
    return f"`{name.removeprefix('.')}`" if name.startswith(".") else f"[{name}](#{name.lower()})"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
