"""Generates the stubs of the contract and compiles those of other languages. `scripts/gen_proto` runs it.

The comments of the contract are beside them, for the server's description of itself: stubs in Python have none.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT: Final = Path(__file__).parent.parent
OUT: Final = ROOT / "build" / "gen"
TOOLS: Final = ROOT / "build" / "tools"
COMMITTED: Final = ROOT / "clients" / "python" / "nomemory" / "v1"
COMMENTS: Final = ROOT / "server" / "nomemory" / "server" / "web" / "comments.json"
MANIFESTS: Final = ROOT / "scripts" / "stubs"
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


def generate(language: str, out: Path) -> None:
    """Generate the stubs of one language into a folder."""
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    template["plugins"] = [plugin | {"out": str(out)} for plugin in plugins(language)]
    run(ROOT, BUF, "generate", "--template", json.dumps(template))


def run(folder: Path, *command: str) -> None:
    """Run a command in a folder; it has to succeed."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - the commands are ours


def compile_go(folder: Path) -> None:
    """Build and vet the Go packages."""
    run(folder, "go", "mod", "tidy")
    run(folder, "go", "vet", "./...")


def compile_typescript(folder: Path) -> None:
    """Check the types of the TypeScript modules."""
    run(folder, "npm", "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
    run(folder, "npx", "--no-install", "tsc")


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


def compile_java(folder: Path) -> None:
    """Compile the Java classes."""
    versions = java_versions()
    protobuf, grpc = versions["protoc"], versions["protoc-gen-grpc-java"]
    run(folder, *MAVEN, "compile", f"-Dprotobuf.version={protobuf}", f"-Dgrpc.version={grpc}")


@dataclass(frozen=True)
class Language:
    """A language beside Python: the programs that it takes, and how its stubs are made and compiled."""

    name: str
    needs: Sequence[str]
    compiled: Callable[[Path], None]
    prepared: Callable[[], None] = lambda: None

    def make(self, out: Path) -> str:
        """Generate and compile; return what to tell."""
        missing = [program for program in self.needs if shutil.which(program) is None]
        if missing:
            return f"skipped, there is no {' and no '.join(missing)}"
        folder = out / self.name
        shutil.rmtree(folder, ignore_errors=True)
        self.prepared()
        generate(self.name, folder)
        generated = sum(path.is_file() for path in folder.rglob("*"))
        shutil.copytree(MANIFESTS / self.name, folder, dirs_exist_ok=True)
        self.compiled(folder)
        return f"{generated} files, generated and compiled in {folder}"


LANGUAGES: Final = (
    Language("go", ["go"], compile_go),
    Language("typescript", ["npm", "npx"], compile_typescript),
    Language("java", ["mvn", "javac"], compile_java, fetch_java_tools),
)


def comments() -> str:
    """Return the comment of each thing in the contract, by its full name, as JSON."""
    with tempfile.TemporaryDirectory() as work:
        image = Path(work, "image.binpb")
        run(ROOT, BUF, "build", "--as-file-descriptor-set", "--path", "proto/nomemory", "--output", str(image))
        files = FileDescriptorSet.FromString(image.read_bytes()).file
    found = {name: comment for file in files if file.package == "nomemory.v1" for name, comment in comments_of(file)}
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


def write_python() -> None:
    """Replace the committed stubs."""
    COMMENTS.write_text(comments(), encoding="utf-8")
    for old in COMMITTED.glob("*_pb2*"):
        old.unlink()
    generate("python", COMMITTED.parents[1])
    (COMMITTED / "py.typed").touch()


def check_python() -> bool:
    """Return whether the committed stubs are what would be generated."""
    if COMMENTS.read_text(encoding="utf-8") != comments():
        return False
    with tempfile.TemporaryDirectory() as fresh:
        generate("python", Path(fresh))
        compared = filecmp.dircmp(Path(fresh, "nomemory", "v1"), COMMITTED, ignore=["__pycache__", "py.typed"])
        _, changed, unreadable = filecmp.cmpfiles(compared.left, compared.right, compared.common_files, shallow=False)
    return not (compared.left_only or compared.right_only or changed or unreadable)


def make_others(out: Path) -> int:
    """Generate and compile the stubs of every language but Python; return the exit code."""
    failed = 0
    for language in LANGUAGES:
        try:
            told = language.make(out)
        except subprocess.CalledProcessError as error:
            failed, told = 1, f"failed: {error}"
        print(f"{language.name}: {told}", flush=True)
    return failed


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="scripts/gen_proto", description="Generates the stubs of the contract.")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--check", action="store_true", help="only tell whether the committed stubs are up to date")
    asked.add_argument("--all", nargs="?", type=Path, const=OUT, metavar="DIR", help="Go, TypeScript and Java instead")
    arguments = parser.parse_args()
    if arguments.check:
        if not check_python():
            print("generated code has drifted: run scripts/gen_proto", file=sys.stderr)
            return 1
    elif arguments.all:
        return make_others(arguments.all.absolute())
    else:
        write_python()
    return 0


if __name__ == "__main__":
    sys.exit(main())
