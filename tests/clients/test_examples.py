"""Tests for the examples in the READMEs of the other clients."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from running_server import Server

ROOT = Path(__file__).parents[2]
FETCH_MAX_S = 900
"""After this time a registry counts as one that does not answer."""


@dataclass(frozen=True)
class Example:
    """The runnable example of a client, with its required programs and files and the command that runs it."""

    client: str
    language: str
    file: str
    needs: tuple[str, ...]
    built: str
    command: tuple[str, ...]
    fetch: tuple[str, ...] = ()
    """What downloads the dependencies, where running the example would."""
    compile: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ROOT / "clients" / self.client

    def text(self) -> str:
        return (self.folder / self.file).read_text(encoding="utf-8")

    def require(self) -> None:
        for program in self.needs:
            if shutil.which(program) is None:
                pytest.skip(f"there is no {program}")
        if not (self.folder / self.built).exists():
            pytest.skip("the client is not built: run scripts/check_clients")

    def prepare(self) -> None:
        """Download and compile the dependencies of the example; skip the test if the registry is unavailable."""
        if self.fetch:
            command = ("timeout", str(FETCH_MAX_S), *self.fetch)
            fetched = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
            if fetched.returncode:
                pytest.skip(f"{' '.join(self.fetch)} failed: {fetched.stderr.strip()[-300:]}")
        if self.compile:
            subprocess.run(self.compile, cwd=self.folder, capture_output=True, check=True)


EXAMPLES = (
    Example(
        client="go",
        language="go",
        file="example/main.go",
        needs=("go",),
        built="go.mod",
        command=("go", "run", "{file}"),
        fetch=("go", "mod", "download"),
        compile=("go", "build", "-o", os.devnull, "./example"),
    ),
    Example(
        "typescript", "js", "example/quickstart.mjs", ("node",), "dist/index.js", ("node", "--input-type=module", "-")
    ),
    Example(
        "java",
        "java",
        "example/Quickstart.java",
        ("java", "javac"),
        "target/nomemory-client.jar",
        ("java", "-cp", "target/nomemory-client.jar:target/lib/*", "{file}"),
    ),
)
each = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.client)


@each
def test_readme_contains_the_example(example: Example) -> None:
    readme = (example.folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(rf"```{example.language}\n(.*?)```", readme, re.DOTALL) == [example.text()]


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Example:
    """A prepared example of a client. With empty caches, the setup may take minutes, which no time limit covers."""
    prepared: Example = request.param
    prepared.require()
    prepared.prepare()
    return prepared


@pytest.mark.timeout(func_only=True)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.client, indirect=True)
def test_example_writes_searches_and_recalls(server: Server, tmp_path: Path, example: Example) -> None:
    file = tmp_path / Path(example.file).name
    file.write_text(example.text().replace("127.0.0.1:7700", server.target), encoding="utf-8")
    with file.open() as source:
        done = subprocess.run(
            [word.format(file=file) for word in example.command],
            cwd=example.folder,
            stdin=source,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
    assert done.returncode == 0, done.stderr
    lines = {line.rstrip() for line in done.stdout.splitlines()}
    assert "found: I never eat spicy food." in lines
    assert any(line.startswith("recalled: I never eat spicy food") for line in lines)
    assert any(line.startswith("step: hybrid_search") for line in lines)
    verdicts = {
        line.removeprefix("verdict: ").removeprefix("VERDICT_") for line in lines if line.startswith("verdict: ")
    }
    assert len(verdicts) == 1
    assert verdicts <= {"SUPPORTED", "POSSIBLE"}


def test_java_readme_has_the_tested_run_command() -> None:
    (example,) = (item for item in EXAMPLES if item.client == "java")
    program, option, classes, file = (word.format(file=example.file) for word in example.command)
    readme = (example.folder / "README.md").read_text(encoding="utf-8")
    assert f'```sh\n{program} {option} "{classes}" {file}\n```' in readme


@pytest.mark.parametrize("client", ["go", "typescript", "java"])
def test_readme_links_are_valid(client: str) -> None:
    folder = ROOT / "clients" / client
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (folder / "README.md").read_text(encoding="utf-8")):
        assert target.startswith("https://") or (folder / target).exists(), target
