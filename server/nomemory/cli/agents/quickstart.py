"""`nomemory quickstart`."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.cli.connection import LOCAL, Target, connect, local_server
from nomemory.client.messages import RoleName, chat_message
from nomemory.client.sync import Client
from nomemory.importing.upload import wait_until_indexed

_USER: Final = "nomemory-quickstart"
_CONVERSATION: Final[tuple[tuple[RoleName, str], ...]] = (
    ("user", "Let's put the gateway on port 8080."),
    ("assistant", "Done: the gateway listens on port 8080."),
    ("user", "8080 is taken on the build machines, so the gateway moves to port 7710."),
    ("assistant", "Noted: port 7710 from now on."),
    ("user", "对了，我不吃辣，团队午饭别订川菜。"),
    ("assistant", "好的，记住了。"),
)
_INDEXING_TIMEOUT_S: Final = 120.0
_QUESTIONS: Final = ("Which port does the gateway use?", "订午饭有什么忌口？")


@click.command("quickstart")
@click.option("--inspector/--no-inspector", default=True, help="Open the inspector at the end.")
def quickstart(*, inspector: bool) -> None:
    """Demonstrate NoMemory on a local server: a short conversation, two questions, and the inspector."""
    root = LocalDataDir.for_current_user().root
    click.echo(f"Starting the local server. Its data is in {root}; only you have access.")
    with local_server() as address, connect(Target(address)) as client:
        try:
            _show(client)
            if inspector:
                click.echo(
                    "Open the address below in a browser to see the same in the inspector. Press Ctrl-C to stop it."
                )
                _run("inspect")
        finally:
            client.erase_user(_USER)
    click.echo(
        "The conversation was erased. The server stops when it is idle. To delete its directory:\n"
        f"  rm -r {shlex.quote(str(root))}\nTo give your agent this memory: nomemory mcp --local (docs/mcp.md)."
    )


def _show(client: Client) -> None:
    click.echo(f"Storing {len(_CONVERSATION)} messages verbatim for the user `{_USER}`:\n")
    begin = datetime.now(UTC) - timedelta(days=1)
    messages = [
        chat_message(user_id=_USER, ts=begin + timedelta(minutes=minute), role=role, content=text)
        for minute, (role, text) in enumerate(_CONVERSATION)
    ]
    client.write(messages)
    for message in messages:
        click.echo(f"  {message.content}")
    wait_until_indexed(client.status, _INDEXING_TIMEOUT_S, lambda _left: None)
    for question in _QUESTIONS:
        click.echo("\nA question. Each line of the answer quotes a stored message:\n")
        _run("recall", "--user", _USER, question)


def _run(*words: str) -> None:
    """Print a command line and run it."""
    arguments = [words[0], "--target", LOCAL, *words[1:]]
    click.echo(f"$ nomemory {shlex.join(arguments)}")
    click.get_current_context().find_root().command.main(arguments, standalone_mode=False)
