"""Generate the client stubs of the API definition. `scripts/gen_proto` runs this script."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parent.parent
BUF: Final = str(ROOT / ".venv-gen" / "bin" / "buf")


def read_plugin_configuration(language: str) -> list[dict[str, Any]]:
    """Return the plugins of one language in buf.gen.yaml."""
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    return [plugin for plugin in template["plugins"] if Path(plugin["out"]).name == language]


def generate_language(language: str, out: Path, proto_folders: Sequence[str] = ()) -> None:
    """Generate the stubs of one language into a folder.

    Args:
        language: the last component of the plugin's `out` path, such as `go`.
        out: target folder.
        proto_folders: paths of additional proto folders.
    """
    template = yaml.safe_load((ROOT / "buf.gen.yaml").read_text(encoding="utf-8"))
    template["inputs"][0]["paths"] += proto_folders
    template["plugins"] = [plugin | {"out": str(out)} for plugin in read_plugin_configuration(language)]
    run_command(ROOT, BUF, "generate", "--template", json.dumps(template))


def run_command(folder: Path, *command: str) -> None:
    """Run a command in a folder.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603 - trusted commands


def describe_missing_programs(programs: Sequence[str]) -> str:
    """Return a message that names the missing programs; empty if none is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


@dataclass(frozen=True)
class ClientStubs:
    """The committed stubs of a language.

    Attributes:
        language: as in `generate_language`.
        pattern: glob of the stub files below `root`.
        required_programs: programs without which the stubs cannot be generated.
        proto_folders: as in `generate_language`.
    """

    language: str
    root: Path
    pattern: str
    required_programs: Sequence[str] = ()
    proto_folders: Sequence[str] = ()

    def replace_committed_stubs(self) -> None:
        """Replace the committed stubs with newly generated stubs."""
        fresh = self._generate_files()
        for old in self.root.glob(self.pattern):
            old.unlink()
        for name, content in fresh.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def are_up_to_date(self) -> bool:
        """Return whether the committed stubs equal newly generated stubs."""
        return self._generate_files() == _read_files(self.root, self.pattern)

    def _generate_files(self) -> Mapping[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            generate_language(self.language, Path(folder), self.proto_folders)
            return _read_files(Path(folder), self.pattern)


def _read_files(root: Path, pattern: str) -> Mapping[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.glob(pattern)}


COMMITTED: Final = (
    ClientStubs("python", ROOT / "clients" / "python", "nomemory/v1/*_pb2*"),
    ClientStubs("go", ROOT / "clients" / "go", "nomemoryv1/*.pb.go", ["go"]),
    ClientStubs(
        "typescript",
        ROOT / "clients" / "typescript" / "src" / "gen",
        "**/*_pb.ts",
        ["npx"],
        ["third_party/googleapis/google/rpc"],
    ),
)


def write_or_check_stubs(stubs: Sequence[ClientStubs], *, check: bool) -> int:
    """Write or check the stubs of each language whose programs are installed; return the exit status."""
    outdated = []
    for stub in stubs:
        if missing := describe_missing_programs(stub.required_programs):
            print(f"stubs of {stub.language}: skipped, {missing}")
        elif not check:
            stub.replace_committed_stubs()
        elif not stub.are_up_to_date():
            outdated.append(stub.language)
    if outdated:
        print(f"generated stubs are out of date ({', '.join(outdated)}): run scripts/gen_proto", file=sys.stderr)
    return 1 if outdated else 0


def main() -> int:
    """Write or check the committed stubs; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/gen_proto", description="Generate the client stubs of the API definition."
    )
    parser.add_argument("--check", action="store_true", help="only report whether the committed stubs are up to date")
    return write_or_check_stubs(COMMITTED, check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
