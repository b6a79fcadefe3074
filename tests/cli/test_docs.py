"""Tests for the documentation pages of the command line."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click

from nomemory.cli.main import nomemory

ROOT = Path(__file__).parent.parent.parent
IMPORTING = (ROOT / "docs" / "importing.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_cli_page_is_generated_from_the_commands() -> None:
    script = ROOT / "scripts" / "gen_cli_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_cli_page_has_every_command_and_option() -> None:
    shared = CLI.partition("## Shared options\n")[2].partition("\n## ")[0]
    context = click.Context(nomemory)
    for name in nomemory.list_commands(context):
        command = nomemory.get_command(context, name)
        assert command
        section = CLI.partition(f"## nomemory {name}\n")[2].partition("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert f"`{option.opts[0]}`" in section + shared, f"{name} {option.opts[0]}"


def test_every_documented_command_line_is_valid() -> None:
    lines = re.findall(r"^(?:\.venv/bin/)?nomemory (.+?)(?:\s+#.*)?$", CLI + IMPORTING, re.MULTILINE)
    for line in lines:
        name, *arguments = shlex.split(line)
        if "[OPTIONS]" not in arguments:
            command = nomemory.get_command(click.Context(nomemory), name)
            assert command
            parser = command.make_parser(click.Context(command))
            parser.parse_args(arguments)
