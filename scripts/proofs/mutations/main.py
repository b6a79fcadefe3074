"""Mutation testing: `scripts/mutations --help`.

Each patch in this folder breaks one guarantee with a small mistake. The first line of a patch describes the mistake;
the second line names the test that must detect the mistake: `Detected by: pytest …` or `Detected by: torture …`, with
arguments. The script applies the patch to a copy of the code and runs the test there. The exit status is 1 if a test
does not fail, or if a patch no longer applies.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_ROOT: Final = Path(__file__).parents[3]
_COPIED: Final = ("server", "recall", "clients/python", "scripts", "tests", "skills", "proto", "sample", "docs")
_TESTS: Final = {
    "pytest": ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
    "torture": ("-m", "proofs.torture.main"),
}
_DETECTED_BY: Final = "Detected by: "
_DETECTED: Final = 1
"""Exit status of a test that detects the mistake; other failures do not count."""
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mutation of the code, which breaks one guarantee.

    Attributes:
        detecting_test: the test that must detect the mistake, with its arguments.
    """

    patch: Path
    mistake: str
    detecting_test: Sequence[str]

    @classmethod
    def read_patch(cls, patch: Path) -> Self:
        """Parse the first two lines of a patch file."""
        mistake, detecting_test, *_ = patch.read_text().splitlines()
        return cls(patch, mistake, shlex.split(detecting_test.removeprefix(_DETECTED_BY)))

    @property
    def name(self) -> str:
        """Name of the mutation."""
        return self.patch.stem

    def apply_patch(self, copy: Path, *options: str) -> bool:
        """Apply the patch to a copy of the code; return whether the patch applies."""
        command = ["git", "apply", *options, str(self.patch)]
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(copy.parent)}
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode == 0  # noqa: S603 - patch of this folder

    def is_detected(self, copy: Path) -> bool:
        """Run the test in a mutated copy; return whether it detects the mistake."""
        test, *arguments = self.detecting_test
        paths = os.pathsep.join(str(copy / item) for item in ("server", "recall", "clients/python", "scripts", "tests"))
        completed = subprocess.run(  # noqa: S603 - tests of this project
            [sys.executable, *_TESTS[test], *arguments],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return completed.returncode == _DETECTED


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], help="only mutations whose name contains one of these texts")
    parser.add_argument(
        "--by", nargs="+", choices=_TESTS, default=list(_TESTS), help="only mutations that these tests must detect"
    )
    parser.add_argument("--unmutated", action="store_true", help="run the tests without mutations; they must pass")
    parser.add_argument("--check", action="store_true", help="only check that the patches apply")
    return parser.parse_args(argv)


def read_mutations(only: Sequence[str], by: Sequence[str]) -> list[Mutation]:
    """Return the selected mutations, sorted by name."""
    every = [Mutation.read_patch(patch) for patch in sorted(Path(__file__).parent.glob("*.patch"))]
    return [item for item in every if item.detecting_test[0] in by and any(text in item.name for text in only)]


def copy_project(root: Path) -> Path:
    """Copy the code and the tests to a folder; return the folder."""
    for folder in _COPIED:
        shutil.copytree(
            _ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "target")
        )
    shutil.copy(_ROOT / "pyproject.toml", root)
    return root


def check_mutation(mutation: Mutation, arguments: argparse.Namespace) -> str:
    """Apply a mutation to a copy and run its test; return an error message, empty if the test behaves as expected."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as root:
        copy = copy_project(Path(root))
        if not mutation.apply_patch(copy, *(("--check",) if arguments.unmutated else ())):
            return "the patch does not apply"
        if arguments.check or mutation.is_detected(copy) != arguments.unmutated:
            return ""
        return "FAILS WITHOUT MUTATION" if arguments.unmutated else "NOT DETECTED"


def main(argv: Sequence[str] | None = None) -> int:
    """Run all selected mutations; return 0 if the tests detect all of them."""
    arguments = parse_arguments(argv)
    mutations = read_mutations(arguments.only, arguments.by)
    if not mutations:
        sys.exit("no mutation matches --only and --by")
    failed = 0
    print("| mutation | mistake | detected by | s |\n|---|---|---|---|")
    for mutation in mutations:
        began = time.monotonic()
        verdict = check_mutation(mutation, arguments)
        failed += bool(verdict)
        by = verdict or " ".join(mutation.detecting_test)
        print(f"| {mutation.name} | {mutation.mistake} | {by} | {time.monotonic() - began:.0f} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
