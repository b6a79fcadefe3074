"""Does every line of every recall stand in the messages? `python scripts/check_citations.py --data DIR`.

Loads every `*.messages.jsonl` of a folder into a fresh server, asks the questions of the `*.questions.jsonl` beside it,
and checks each citation against the file, without any of the server's code: the message is the user's own, the quote
is in it word for word, at the span that is given, and it was said before the question was asked. Exits 1 otherwise.

The form of the files is that of `sample/`. With `--embedder none` (the default) it runs in minutes on the words alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from nomemory.client import AsyncClient
from nomemory.server.runtime.app import running
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

Record = dict[str, str]


def records(path: Path) -> list[Record]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def faults(reply: pb.RecallResponse, said: dict[str, Record], now: datetime) -> Iterator[str]:
    """Name what is wrong with the citations of an answer."""
    view = reply.memory_view
    for statement in [*view.preferences, *view.profile, *view.constraints]:
        if not statement.citations:
            yield "a statement without a citation"
        for citation in statement.citations:
            message = said.get(citation.message_id)
            if message is None:
                yield f"{citation.message_id} is not a message of this user"
            elif message["content"][citation.span.start : citation.span.end] != citation.quote or not citation.quote:
                yield f"{citation.message_id} does not say that there"
            elif datetime.fromisoformat(message["ts"]) >= now:
                yield f"{citation.message_id} was said after the question"


def as_message(record: Record) -> message_pb2.ChatMessage:
    """Make the message of a record."""
    message = message_pb2.ChatMessage(
        user_id=record["user_id"],
        message_id=record["message_id"],
        content=record["content"],
        role=message_pb2.Role.Value(f"ROLE_{record['role'].upper()}"),
        name=record.get("name", ""),
        conversation_id=record.get("conversation_id", ""),
    )
    message.ts.FromDatetime(datetime.fromisoformat(record["ts"]))
    return message


async def check_set(client: AsyncClient, messages: list[Record], questions: list[Record]) -> tuple[Counter[str], int]:
    """Ask the questions of one set; returns what was counted, and the number of faults."""
    counted, wrong, costs = Counter[str](), 0, []
    written = await client.import_messages([as_message(record) for record in messages])
    await client.lexical_search(messages[0]["user_id"], "a", at_least=written.write_token)
    of_user: dict[str, dict[str, Record]] = {}
    for record in messages:
        of_user.setdefault(record["user_id"], {})[record["message_id"]] = record
    for asked in questions:
        now = datetime.fromisoformat(asked["now"]).astimezone(UTC)
        began = time.process_time()
        reply = await client.recall(asked["question"], user_id=asked["user_id"], now=now)
        costs.append(time.process_time() - began)
        counted[pb.Verdict.Name(reply.verdict).removeprefix("VERDICT_").lower()] += 1
        counted["statements"] += sum(len(part) for part in _sections(reply.memory_view))
        for fault in faults(reply, of_user[asked["user_id"]], now):
            wrong += 1
            print(f"{asked['question_id']}: {fault}")
    print(f"  {len(questions)} questions, median {1000 * median(costs):.0f} ms of CPU: {dict(counted)}")
    return counted, wrong


def _sections(view: pb.MemoryView) -> list[list[pb.Statement]]:
    return [list(view.preferences), list(view.profile), list(view.constraints)]


async def check(data: Path, limit: int, embedder: str) -> int:
    """Check all sets of a folder; returns the number of faults."""
    wrong = 0
    for path in sorted(data.glob("*messages.jsonl")):  # noqa: ASYNC240 - nothing else runs yet
        questions = records(path.with_name(path.name.replace("messages", "questions")))[: limit or None]
        print(path.name)
        with tempfile.TemporaryDirectory() as directory:
            settings = Settings.from_environment(data=directory, listen="127.0.0.1:0", embedder=embedder)
            async with running(settings) as address, AsyncClient(str(address)) as client:
                _, faulty = await check_set(client, records(path), questions)
                wrong += faulty
    return wrong


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=0, help="questions of each set; 0: all")
    parser.add_argument("--embedder", default="none", choices=("none", "local"))
    arguments = parser.parse_args()
    configure_logs("warning")
    wrong = asyncio.run(check(arguments.data, arguments.limit, arguments.embedder))
    print("every citation stands" if not wrong else f"{wrong} citations do not stand")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
