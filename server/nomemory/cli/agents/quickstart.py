"""`nomemory quickstart`."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime, timedelta
from typing import Final

import click

from nomemory.agents import local_server
from nomemory.agents.local_data_dir import LocalDataDir
from nomemory.agents.local_server import LocalServerError
from nomemory.cli import connection
from nomemory.cli.agents.program import CACHE_WARNING, get_program_name, get_program_path, runs_from_cache
from nomemory.cli.connection import LOCAL, Target, open_client
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
_NEXT_STEPS: Final = """
The local server runs in the background. Try next:

  Ask another question:
    {name} recall --target local --user {user} 'Why did the gateway move?'
  See the searches and scores in a browser:
    {name} inspect --target local
  Connect an agent to your own memory:
    claude mcp add --scope user nomemory -- {program} mcp --local
    codex mcp add nomemory -- {program} mcp --local
    Other agents: add an MCP server with the command `{program} mcp --local`.
  Erase this conversation and stop the local server:
    {name} quickstart --stop
"""


@click.command("quickstart")
@click.option("--stop", is_flag=True, help="Erase the conversation and stop the local server.")
def run_quickstart(*, stop: bool) -> None:
    """Demonstrate NoMemory on a local server: store a short conversation and ask two questions.

    At the end, the command shows how to connect an agent and how to stop the server.
    """
    local_data = LocalDataDir.for_current_user()
    if stop:
        _clean_up(local_data)
        return
    click.echo(
        f"Starting the local server. The first start can take a minute. Its data is in {local_data.root}; only you "
        "have access."
    )
    with connection.running_local_server() as address, open_client(Target(address)) as client:
        _run_example_recall(client)
    click.echo(_NEXT_STEPS.format(name=get_program_name(), program=get_program_path(), user=_USER), nl=False)
    if runs_from_cache():
        click.echo(f"\n{CACHE_WARNING}")


def _run_example_recall(client: Client) -> None:
    click.echo(f"Storing {len(_CONVERSATION)} messages verbatim for the user `{_USER}`:\n")
    begin = datetime.now(UTC) - timedelta(days=1)
    messages = [
        chat_message(user_id=_USER, ts=begin + timedelta(minutes=minute), role=role, content=text)
        for minute, (role, text) in enumerate(_CONVERSATION)
    ]
    client.erase_user(_USER)  # the conversation of an earlier run
    client.write(messages)
    for message in messages:
        click.echo(f"  {message.content}")
    wait_until_indexed(client.status, _INDEXING_TIMEOUT_S, lambda _left: None)
    for question in _QUESTIONS:
        click.echo("\nAsking a question. Each line of the answer quotes a stored message:\n")
        _run_command("recall", "--user", _USER, question)


def _clean_up(local_data: LocalDataDir) -> None:
    """Erase the conversation, and stop the server unless it is in use.

    Raises:
        click.ClickException: the server does not stop.
    """
    with connection.running_local_server() as address, open_client(Target(address)) as client:
        client.erase_user(_USER)
    try:
        is_stopped = local_server.stop_if_unused(local_data)
    except LocalServerError as error:
        raise click.ClickException(error.message) from None
    server = "was stopped" if is_stopped else "keeps running, because an agent or another command is using it"
    click.echo(
        f"The conversation was erased. The local server {server}.\n"
        f"The memory of your agents is in {local_data.root}. To delete it, delete the directory."
    )


def _run_command(*words: str) -> None:
    """Print a command line and run it."""
    arguments = [words[0], "--target", LOCAL, *words[1:]]
    click.echo(f"$ nomemory {shlex.join(arguments)}")
    click.get_current_context().find_root().command.main(arguments, standalone_mode=False)
