"""The comments of the contract, by the full names of what they stand at. Stubs in Python have none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = "nomemory.v1"


def contract() -> list[FileDescriptorProto]:
    """Return the files of the contract, with their comments."""
    buf = Path(sys.executable).with_name("buf")
    image = subprocess.run([buf, "build", "--output", "-"], cwd=ROOT, capture_output=True, check=True)  # noqa: S603 - ours
    return [file for file in FileDescriptorSet.FromString(image.stdout).file if file.package == PACKAGE]


def comments(files: Sequence[FileDescriptorProto]) -> Mapping[str, str]:
    """Return the comments of files, by names such as `nomemory.v1.ChatMessage.content`."""
    return {name: comment for file in files for name, comment in _comments_of(file)}


def _comments_of(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    for location in file.source_code_info.location:
        if location.leading_comments and (name := _name_at(file, location.path)):
            yield f"{file.package}.{name}", _trimmed(location.leading_comments)


def _name_at(file: FileDescriptorProto, path: Sequence[int]) -> str:
    """Return the name of what a path within a file's descriptor leads to; empty: it has none."""
    place: Any = file
    names: list[str] = []
    for number, index in zip(path[::2], path[1::2], strict=False):
        several = getattr(place, place.DESCRIPTOR.fields_by_number[number].name)
        place = several[index] if hasattr(several, "__getitem__") else None
        if not hasattr(place, "name"):
            return ""
        names.append(place.name)
    return ".".join(names)


def _trimmed(comment: str) -> str:
    return "\n".join(line.removeprefix(" ").rstrip() for line in comment.splitlines()).strip()
