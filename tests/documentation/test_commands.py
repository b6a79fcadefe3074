"""Tests that the programs, options and variables of every documented command exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence

import click
import pytest
from documentation.blocks import ROOT, Block, Command, blocks

from nomemory.cli.main import nomemory

OF_OTHERS = {
    *(".", "buf", "cd", "claude", "curl", "docker", "echo", "git", "grpcurl", "helm", "java", "kubectl"),
    *("llama-server", "ollama", "openssl", "pg_restore", "printf", "sed", "sudo", "vllm"),
}
VARIABLES = {
    *re.findall(r"^- `(\w+)`", (ROOT / "docs" / "settings.md").read_text(encoding="utf-8"), re.MULTILINE),
    *("NOMEMORY_API_KEY", "NOMEMORY_TARGET", "NOMEMORY_USER"),
    *("FUZZ_REQUESTS", "FUZZ_SEED", "OLLAMA_CONTEXT_LENGTH", "OPENAI_API_KEY", "OPENAI_BASE_URL", "PATH"),
}
SAVED = {"assistant.py"}
"""Programs that a page shows for the reader to save."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_THE_SHELL = [block for block in blocks() if block.is_for_the_shell]


def check_nomemory(words: Sequence[str]) -> None:
    """Fail if the command line does not know a subcommand or an option."""
    command: click.Command = nomemory
    while isinstance(command, click.Group):
        subcommand = command.get_command(click.Context(command), words[0])
        assert subcommand is not None, words[0]
        command, words = subcommand, words[1:]
    command.make_parser(click.Context(command)).parse_args(list(words))


def check_script(name: str, words: Sequence[str]) -> None:
    """Fail if a script does not exist, or if it does not support an option."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for module in re.findall(r"-m ([a-z._]+)|scripts/([a-z_]+)\.py", text):
        runs = "".join(module).removesuffix(".main").replace(".", "/")
        folders = [ROOT / "scripts", ROOT / "server"]
        files = [file for folder in folders for file in (*folder.glob(f"{runs}.py"), *folder.glob(f"{runs}/*.py"))]
        text += "".join(file.read_text(encoding="utf-8") for file in files)
    unknown = [word for word in words if word.startswith("--") and word not in text]
    assert unknown == [], f"{name} does not support {unknown}"


def check_pip(words: Sequence[str]) -> None:
    """Fail if a page installs an unknown extra."""
    for extra in re.findall(r"nomemory\[(\w+)\]", " ".join(words)):
        assert extra in PROJECT["optional-dependencies"]


def check(command: Command) -> None:
    """Fail if a command refers to a missing program, option or file."""
    program, words = command.program.removeprefix("token=$("), command.words[1:]
    assert set(command.variables) <= VARIABLES
    assert set(re.findall(r"\bNOMEMORY_[A-Z_]+", " ".join(words))) <= VARIABLES
    if program == "nomemory":
        check_nomemory(words)
    elif program == "scripts/with_small_model":  # runs a command
        check_nomemory(words[words.index("nomemory") + 1 :])
    elif program.startswith(("scripts/", ".ci/")):
        check_script(program, words)
    elif program == "uvx":
        check_nomemory(words[words.index("nomemory") + 1 :])
    elif program == "pip":
        check_pip(words)
    elif program in ("python", "python3"):
        assert words[0] in ("-c", "-m", *SAVED) or (ROOT / words[0]).exists()
    else:
        assert program in OF_OTHERS | {""}, program


@pytest.mark.parametrize("page", sorted({block.page for block in FOR_THE_SHELL}))
def test_every_documented_command_is_valid(page: str) -> None:
    page_commands = [command for block in FOR_THE_SHELL if block.page == page for command in block.commands()]
    assert page_commands
    for command in page_commands:
        check(command)


@pytest.mark.parametrize(
    "line", ["nomemory lst", "nomemory list --no-such", "NOMEMORY_NO_SUCH=1 curl", "scripts/no_such", "no-such"]
)
def test_invalid_command_is_detected(line: str) -> None:
    (command,) = Block("page.md", "sh", line).commands()
    with pytest.raises((AssertionError, KeyError, OSError, click.UsageError)):
        check(command)
