"""Programs that run the golden scenario, one per client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proofs.conformance import mcp_view
from proofs.conformance.expectation import Outcome, Step, read_outcomes
from proofs.conformance.golden_server import run_golden_server

ROOT: Final = Path(__file__).parents[3]
SCENARIO: Final = Path(__file__).with_name("scenario.json")
_PLAYING_MAX_S: Final = 300.0


class ClientRunError(Exception):
    """Raised if a client cannot run the whole scenario; the client's standard error states the reason."""


@dataclass(frozen=True)
class ClientRunner:
    """A client that can run the scenario.

    Attributes:
        folder: working directory, relative to the repository.
        prepare: commands that build the client.
        play: command that runs the scenario; called with three file names: the scenario, the connection file of
            `run_golden_server`, and the output file, to which it writes a line of JSON per step.
    """

    name: str
    folder: str
    required_programs: Sequence[str]
    prepare: Sequence[Sequence[str]]
    play: Sequence[str]
    by_tools: bool = False
    """Whether the client calls MCP tools, which support only some of the steps and return fewer fields."""

    def select_checkable_expectations(self, step: Step) -> Step:
        """Return a step with the expectations that this client can check."""
        return mcp_view.select_visible_expectations(step) if self.by_tools else step

    def select_visible_outcome(self, step: Step, outcome: Outcome) -> Outcome:
        """Return the part of another client's outcome that this client could also observe."""
        return mcp_view.select_visible_outcome(step, outcome) if self.by_tools else outcome

    def find_missing_programs(self) -> Sequence[str]:
        """Return the required programs that are not installed."""
        return [program for program in self.required_programs if shutil.which(program) is None]

    def run_scenario(self, work: Path) -> Sequence[Outcome]:
        """Run the scenario against a new server; return the outcome of each step.

        Raises:
            ClientRunError: the client failed.
        """
        output = work / f"{self.name}.jsonl"
        for command in self.prepare:
            self._run_command(*command, timeout_s=None)  # a download can take minutes
        with run_golden_server() as connection_file:
            self._run_command(*self.play, str(SCENARIO), str(connection_file), str(output), timeout_s=_PLAYING_MAX_S)
        return read_outcomes(output)

    def _run_command(self, *command: str, timeout_s: float | None) -> None:
        try:
            subprocess.run(command, cwd=ROOT / self.folder, check=True, timeout=timeout_s)  # noqa: S603 - trusted commands
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise ClientRunError(str(error)) from error


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
