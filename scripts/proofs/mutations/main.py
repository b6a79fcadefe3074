"""Do the proofs notice what they are for? `scripts/mutations --help`.

Each patch beside this file breaks one promise, as a small mistake would. It says in its first line what it breaks, and
in its second what has to notice it: `Noticed by: pytest …` or `torture …`, with arguments. The patch is
applied to a copy, and the proof is run there: it has to find a problem. Exits 1 if a proof finds none, or if a patch
does not fit the code any more.
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
_PROOFS: Final = {
    "pytest": ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
    "torture": ("-m", "proofs.torture.main"),
}
_NOTICED_BY: Final = "Noticed by: "
_NOTICED: Final = 1
"""What a proof exits with that has found a problem: any other failure is no notice."""
_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mistake.

    Attributes:
        breaks: the promise that it breaks, in words.
        noticed_by: the proof that has to notice it, and its arguments.
    """

    patch: Path
    breaks: str
    noticed_by: Sequence[str]

    @classmethod
    def read(cls, patch: Path) -> Self:
        """Read the first lines of a patch."""
        breaks, noticed_by, *_ = patch.read_text().splitlines()
        return cls(patch, breaks, shlex.split(noticed_by.removeprefix(_NOTICED_BY)))

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.patch.stem

    def applied(self, to: Path, *options: str) -> bool:
        """Apply the patch to a copy; return whether it fits."""
        command = ["git", "apply", *options, str(self.patch)]
        outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(to.parent)}
        return subprocess.run(command, cwd=to, env=outside, check=False).returncode == 0  # noqa: S603 - our own patch

    def is_noticed(self, copy: Path) -> bool:
        """Run the proof in a copy with the mistake; return whether it finds a problem."""
        proof, *arguments = self.noticed_by
        paths = os.pathsep.join(str(copy / item) for item in ("server", "recall", "clients/python", "scripts", "tests"))
        ran = subprocess.run(  # noqa: S603 - our own proofs
            [sys.executable, *_PROOFS[proof], *arguments],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return ran.returncode == _NOTICED


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], help="only mistakes whose names have one of these in them")
    parser.add_argument("--by", nargs="+", choices=_PROOFS, default=list(_PROOFS), help="only what these notice")
    parser.add_argument("--sound", action="store_true", help="make no mistake: then no proof may find a problem")
    parser.add_argument("--fit", action="store_true", help="only look whether the patches fit the code")
    return parser.parse_args(given)


def mutations(only: Sequence[str], by: Sequence[str]) -> list[Mutation]:
    """Return the mistakes that are asked for, by name."""
    every = [Mutation.read(patch) for patch in sorted(Path(__file__).parent.glob("*.patch"))]
    return [item for item in every if item.noticed_by[0] in by and any(part in item.name for part in only)]


def copy_to(root: Path) -> Path:
    """Copy what the proofs need; return where it is."""
    for part in _COPIED:
        shutil.copytree(
            _ROOT / part, root / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules", "target")
        )
    shutil.copy(_ROOT / "pyproject.toml", root)
    return root


def verdict_of(mutation: Mutation, given: argparse.Namespace) -> str:
    """Make the mistake in a copy, and return what is wrong about what became of it; empty: nothing."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as root:
        copy = copy_to(Path(root))
        if not mutation.applied(copy, *(("--check",) if given.sound else ())):
            return "the patch does not fit"
        if given.fit or mutation.is_noticed(copy) != given.sound:
            return ""
        return "FINDS A PROBLEM" if given.sound else "NOT NOTICED"


def main(given: Sequence[str] | None = None) -> int:
    """Make each mistake; return 0 if all are noticed."""
    arguments = arguments_of(given)
    failed = 0
    print("| mistake | breaks | noticed by | s |\n|---|---|---|---|")
    for mutation in mutations(arguments.only, arguments.by):
        began = time.monotonic()
        verdict = verdict_of(mutation, arguments)
        failed += bool(verdict)
        by = verdict or " ".join(mutation.noticed_by)
        print(f"| {mutation.name} | {mutation.breaks} | {by} | {time.monotonic() - began:.0f} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
