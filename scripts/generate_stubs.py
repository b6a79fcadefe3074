"""Generates the stubs of the contract. `scripts/gen_proto` runs it."""

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


COMMITTED: Final = (
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


def each(stubs: Sequence[Stubs], *, check: bool) -> int:
    """Write or check the stubs of each language that this machine has the programs for; return the exit code."""
    drifted = []
    for stub in stubs:
        if missing := absent(stub.needs):
            print(f"stubs of {stub.language}: skipped, {missing}")
        elif not check:
            stub.write()
        elif not stub.are_up_to_date():
            drifted.append(stub.language)
    if drifted:
        print(f"generated code of {', '.join(drifted)} has drifted: run scripts/gen_proto", file=sys.stderr)
    return 1 if drifted else 0


def main() -> int:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="scripts/gen_proto", description="Generates the stubs of the contract.")
    parser.add_argument("--check", action="store_true", help="only tell whether the committed stubs are up to date")
    return each(COMMITTED, check=parser.parse_args().check)


if __name__ == "__main__":
    sys.exit(main())
