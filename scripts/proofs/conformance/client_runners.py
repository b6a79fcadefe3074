"""The programs that play the golden scenario, one for each client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.conformance import mcp_view
from proofs.conformance.expectation import Outcome, Step, outcomes
from proofs.conformance.golden_server import golden_server

ROOT: Final = Path(__file__).parents[3]
SCENARIO: Final = Path(__file__).with_name("scenario.json")
_PLAYING_MAX_S: Final = 300.0


class PlayError(Exception):
    """A client could not play the scenario to its end. It has said why on standard error."""


@dataclass(frozen=True)
class ClientRunner:
    """A client: the programs that it takes, what makes it ready, and what plays.

    `play` is called with three files: the scenario, what tells how to reach the server, and where to write a line of
    JSON for each step.
    """

    name: str
    folder: str
    needs: Sequence[str]
    prepare: Sequence[Sequence[str]]
    play: Sequence[str]
    by_tools: bool = False
    """Whether it calls tools: then it leaves out the steps that no tool can take, and sees what tools show."""

    def expected(self, step: Step) -> Step:
        """Return a step that expects what this client can see."""
        return mcp_view.shown_of_step(step) if self.by_tools else step

    def seen(self, step: Step, outcome: Outcome) -> Outcome:
        """Return what this client would have seen of what another one got."""
        return mcp_view.shown_of_outcome(step, outcome) if self.by_tools else outcome

    def missing(self) -> Sequence[str]:
        """Return the programs that this machine lacks."""
        return [program for program in self.needs if shutil.which(program) is None]

    def played(self, work: Path) -> Sequence[Outcome]:
        """Play against a fresh server; return the outcome of each step.

        Raises:
            PlayError: see there.
        """
        written = work / f"{self.name}.jsonl"
        for command in self.prepare:
            self._run(*command, timeout_s=None)  # it may download for minutes
        with golden_server() as told:
            self._run(*self.play, str(SCENARIO), str(told), str(written), timeout_s=_PLAYING_MAX_S)
        return outcomes(written)

    def _run(self, *command: str, timeout_s: float | None) -> None:
        try:
            subprocess.run(command, cwd=ROOT / self.folder, check=True, timeout=timeout_s)  # noqa: S603 - ours
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise PlayError(str(error)) from error


_MAVEN: Final = (("mvn", "--batch-mode", "--quiet", "-DskipTests", "package"),)
_JAVA_CLASSES: Final = "target/test-classes:target/nomemory-client.jar:target/lib/*:target/test-lib/*"
_NPM: Final = (("npm", "ci", "--silent", "--no-audit", "--no-fund"), ("npm", "run", "--silent", "build"))

CLIENT_RUNNERS: Final = (
    ClientRunner("python", "scripts", (), (), (sys.executable, "-m", "proofs.conformance.python_player")),
    ClientRunner("http", "scripts", (), (), (sys.executable, "-m", "proofs.conformance.http_player")),
    ClientRunner("mcp", "scripts", (), (), (sys.executable, "-m", "proofs.conformance.mcp_player"), by_tools=True),
    ClientRunner("go", "clients/go", ("go",), (("go", "build", "./..."),), ("go", "run", "./internal/golden")),
    ClientRunner("typescript", "clients/typescript", ("node", "npm"), _NPM, ("node", "golden/main.mjs")),
    ClientRunner(
        "java",
        "clients/java",
        ("java", "javac", "mvn"),
        _MAVEN,
        ("java", "-cp", _JAVA_CLASSES, "io.nomemory.golden.Golden"),
    ),
)
