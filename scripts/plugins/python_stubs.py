"""Protoc plugin for Python messages and gRPC stubs, which runs the protoc of grpcio-tools."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from grpc_tools import protoc


def generate_stubs(request: CodeGeneratorRequest, work: Path) -> CodeGeneratorResponse:
    """Run protoc on the descriptors of a request; return the generated files."""
    descriptors, out = work / "descriptors", work / "out"
    for file in request.proto_file:
        _clear_default_json_names(file.message_type)
    descriptors.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
    out.mkdir()
    outputs = (f"--python_out={out}", f"--grpc_python_out={out}")
    if protoc.main(["protoc", f"--descriptor_set_in={descriptors}", *outputs, *request.file_to_generate]):
        return CodeGeneratorResponse(error="grpc_tools.protoc failed")
    reply = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        reply.file.add(name=str(path.relative_to(out)), content=path.read_text(encoding="utf-8"))
    return reply


def _clear_default_json_names(messages: Iterable[DescriptorProto]) -> None:
    """Clear JSON names that equal the default, because buf sets them and protoc would write them to the stubs."""
    for message in messages:
        for field in message.field:
            if field.json_name == _build_default_json_name(field.name):
                field.ClearField("json_name")
        _clear_default_json_names(message.nested_type)


def _build_default_json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def main() -> None:
    """Read a plugin request from standard input and write the response to standard output."""
    with TemporaryDirectory() as work:
        reply = generate_stubs(CodeGeneratorRequest.FromString(sys.stdin.buffer.read()), Path(work))
    sys.stdout.buffer.write(reply.SerializeToString())


if __name__ == "__main__":
    main()
