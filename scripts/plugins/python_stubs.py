"""A protoc plugin for messages and gRPC stubs in Python. The generators are only in grpcio-tools' own protoc."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf.compiler.plugin_pb2 import CodeGeneratorRequest, CodeGeneratorResponse
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from grpc_tools import protoc


def generated(request: CodeGeneratorRequest, work: Path) -> CodeGeneratorResponse:
    """Run protoc over the descriptors of a request, and return the files that it writes."""
    descriptors, out = work / "descriptors", work / "out"
    for file in request.proto_file:
        _forget_json_names(file.message_type)
    descriptors.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
    out.mkdir()
    into = (f"--python_out={out}", f"--grpc_python_out={out}")
    if protoc.main(["protoc", f"--descriptor_set_in={descriptors}", *into, *request.file_to_generate]):
        return CodeGeneratorResponse(error="grpc_tools.protoc failed")
    reply = CodeGeneratorResponse(supported_features=CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        reply.file.add(name=str(path.relative_to(out)), content=path.read_text(encoding="utf-8"))
    return reply


def _forget_json_names(messages: Iterable[DescriptorProto]) -> None:
    """Take out what follows from the fields' names: buf writes it down, and it would end up in the stubs."""
    for message in messages:
        for field in message.field:
            if field.json_name == _json_name(field.name):
                field.ClearField("json_name")
        _forget_json_names(message.nested_type)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def main() -> None:
    """Answer the request on standard input, as protoc's plugins do."""
    with TemporaryDirectory() as work:
        reply = generated(CodeGeneratorRequest.FromString(sys.stdin.buffer.read()), Path(work))
    sys.stdout.buffer.write(reply.SerializeToString())


if __name__ == "__main__":
    main()
