"""Generates the stubs of the contract. `scripts/gen_proto` runs it.

The contract's comments are beside them, for the server's description of itself: stubs in Python have none.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT: Final = Path(__file__).parent.parent
OUT: Final = ROOT / "build" / "gen" / "java"
TOOLS: Final = ROOT / "build" / "tools"
JAVA_PROJECT: Final = ROOT / "scripts" / "stubs" / "java"
BUF: Final = str(ROOT / ".venv-gen" / "bin" / "buf")

MAVEN: Final = ["mvn", "--batch-mode", "--quiet"]
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
JAVA_TOOLS: Final = {"protoc": "com.google.protobuf:protoc", "protoc-gen-grpc-java": "io.grpc:protoc-gen-grpc-java"}
SYSTEMS: Final = {"Linux": "linux", "Darwin": "osx"}
MACHINES: Final = {"x86_64": "x86_64", "arm64": "aarch_64", "aarch64": "aarch_64"}


def plugins(language: str) -> list[dict[str, Any]]:
    """Return the plugins of one language from buf.gen.yaml."""
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    return [plugin for plugin in template["plugins"] if Path(plugin["out"]).name == language]


def generate(language: str, out: Path, also: Sequence[str] = ()) -> None:
    """Generate the stubs of one language into a folder, and those of further protos if need be."""
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    template["inputs"][0]["paths"] += also
    template["plugins"] = [plugin | {"out": str(out)} for plugin in plugins(language)]
    run(ROOT, BUF, "generate", "--template", json.dumps(template))


def run(folder: Path, *command: str) -> None:
    """Run a command in a folder; it has to succeed."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - the commands are ours


def fetch_java_tools() -> None:
    """Fetch protoc and its plugin for gRPC in Java, in the versions of buf.gen.yaml."""
    classifier = f"{SYSTEMS[platform.system()]}-{MACHINES[platform.machine()]}"
    for name, version in java_versions().items():
        tool = TOOLS / f"{name}-{version}"
        if not tool.exists():
            artifact = f"{JAVA_TOOLS[name]}:{version}:exe:{classifier}"
            run(ROOT, *MAVEN, COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={TOOLS}")
            fetched = TOOLS / f"{name}-{version}-{classifier}.exe"
            fetched.chmod(0o755)
            fetched.rename(tool)


def java_versions() -> dict[str, str]:
    """Return the versions of protoc and its plugin, by their names."""
    text = json.dumps(plugins("java"))
    found = re.findall(r"build/tools/(protoc|protoc-gen-grpc-java)-([\d.]+)", text)
    return dict(found)


def make_java(out: Path) -> int:
    """Generate and compile the Java classes; return the exit code."""
    if missing := absent(["mvn", "javac"]):
        print(f"java: skipped, {missing}")
        return 0
    shutil.rmtree(out, ignore_errors=True)
    fetch_java_tools()
    generate("java", out)
    shutil.copytree(JAVA_PROJECT, out, dirs_exist_ok=True)
    versions = java_versions()
    protobuf, grpc = versions["protoc"], versions["protoc-gen-grpc-java"]
    run(out, *MAVEN, "compile", f"-Dprotobuf.version={protobuf}", f"-Dgrpc.version={grpc}")
    print(f"java: generated and compiled in {out}")
    return 0


def absent(programs: Sequence[str]) -> str:
    """Say which programs this machine lacks; empty: none."""
    missing = [program for program in programs if shutil.which(program) is None]
    return f"there is no {' and no '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class Stubs:
    """The committed stubs of a language: those files below `root` that match `pattern`."""

    language: str
    root: Path
    pattern: str
    needs: Sequence[str] = ()
    also: Sequence[str] = ()

    def write(self) -> None:
        """Replace them by what the contract says."""
        fresh = self._fresh()
        for old in self.root.glob(self.pattern):
            old.unlink()
        for name, content in fresh.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def are_up_to_date(self) -> bool:
        """Return whether they are what would be generated."""
        return self._fresh() == _files(self.root, self.pattern)

    def _fresh(self) -> Mapping[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            generate(self.language, Path(folder), self.also)
            return _files(Path(folder), self.pattern)


def _files(root: Path, pattern: str) -> Mapping[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.glob(pattern)}


@dataclass(frozen=True)
class Comments:
    """The comment of each thing in the contract, by its full name, as JSON."""

    language: str = "comments"
    needs: Sequence[str] = ()
    file: Path = ROOT / "server" / "nomemory" / "server" / "web" / "comments.json"

    def write(self) -> None:
        """Replace them by what the contract says."""
        self.file.write_text(self._fresh(), encoding="utf-8")

    def are_up_to_date(self) -> bool:
        """Return whether they are what the contract says."""
        return self._fresh() == self.file.read_text(encoding="utf-8")

    def _fresh(self) -> str:
        with tempfile.TemporaryDirectory() as work:
            image = Path(work, "image.binpb")
            run(ROOT, BUF, "build", "--as-file-descriptor-set", "--path", "proto/nomemory", "--output", str(image))
            files = FileDescriptorSet.FromString(image.read_bytes()).file
        own = [file for file in files if file.package == "nomemory.v1"]
        found = {name: comment for file in own for name, comment in comments_of(file)}
        return json.dumps(found, indent=0, ensure_ascii=False, sort_keys=True) + "\n"


def comments_of(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Return the names and comments of a file."""
    for location in file.source_code_info.location:
        if location.leading_comments and (name := name_at(file, location.path)):
            yield f"{file.package}.{name}", " ".join(location.leading_comments.split())


def name_at(file: FileDescriptorProto, path: Sequence[int]) -> str:
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


COMMITTED: Final = (
    Comments(),
    Stubs("python", ROOT / "clients" / "python", "nomemory/v1/*_pb2*"),
    Stubs("go", ROOT / "clients" / "go", "nomemoryv1/*.pb.go", ["go"]),
    Stubs(
        "typescript",
        ROOT / "clients" / "typescript" / "src" / "gen",
        "**/*_pb.ts",
        ["npx"],
        ["third_party/googleapis/google/rpc"],
    ),
)


def each(stubs: Sequence[Stubs | Comments], *, check: bool) -> int:
    """Write or check the stubs of each language that this machine has the programs for; return the exit code."""
    drifted = []
    for one in stubs:
        if missing := absent(one.needs):
            print(f"stubs of {one.language}: skipped, {missing}")
        elif not check:
            one.write()
        elif not one.are_up_to_date():
            drifted.append(one.language)
    if drifted:
        print(f"generated code of {', '.join(drifted)} has drifted: run scripts/gen_proto", file=sys.stderr)
    return 1 if drifted else 0


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="scripts/gen_proto", description="Generates the stubs of the contract.")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--check", action="store_true", help="only tell whether the committed stubs are up to date")
    asked.add_argument("--java", nargs="?", type=Path, const=OUT, metavar="DIR", help="Java instead, and compile it")
    arguments = parser.parse_args()
    if arguments.java:
        return make_java(arguments.java.absolute())
    return each(COMMITTED, check=arguments.check)


if __name__ == "__main__":
    sys.exit(main())
