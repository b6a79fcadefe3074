"""Comments of the API definition by full element name; the generated Python stubs do not contain them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "nomemory.v1"


def load_contract() -> list[FileDescriptorProto]:
    """Return the file descriptors of the API definition, including comments."""
    buf = Path(sys.executable).with_name("buf")
    image = subprocess.run([buf, "build", "--output", "-"], cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - fixed arguments
    return [file for file in FileDescriptorSet.FromString(image.stdout).file if file.package == PACKAGE]


def collect_comments(files: Sequence[FileDescriptorProto]) -> Mapping[str, str]:
    """Return the comments of files by full element name, such as `nomemory.v1.ChatMessage.content`."""
    return {name: comment for file in files for name, comment in _collect_file_comments(file)}


def _collect_file_comments(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    for location in file.source_code_info.location:
        if location.leading_comments and (name := _find_element_name(file, location.path)):
            yield f"{file.package}.{name}", _trim_lines(location.leading_comments)


def _find_element_name(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the name of the element at a path in a file descriptor; empty if the element has no name."""
    element: Any = file
    names: list[str] = []
    for number, index in zip(path[::2], path[1::2], strict=False):
        children = getattr(element, element.DESCRIPTOR.fields_by_number[number].name)
        element = children[index] if hasattr(children, "__getitem__") else None
        if not hasattr(element, "name"):
            return ""
        names.append(element.name)
    return ".".join(names)


def _trim_lines(comment: str) -> str:
    return "\n".join(line.removeprefix(" ").rstrip() for line in comment.splitlines()).strip()
