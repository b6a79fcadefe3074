"""Verify every citation of every recall against the messages: `python scripts/check_citations.py --data DIR`.

The script loads each `*.messages.jsonl` of a folder into a new server and asks the questions of the matching
`*.questions.jsonl`. It checks each citation against the file, without server code: the message belongs to the user, the
quote is the text at the cited span, and the message precedes the question. The exit status is 1 if a citation is
invalid.

The files have the format of the files in `sample/`. With `--embedder none` (the default) the run uses lexical search
only and takes minutes.
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
from nomemory.server.runtime.app import running_server
from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.settings import Settings
from nomemory.v1 import message_pb2
from nomemory.v1 import recall_service_pb2 as pb

Record = dict[str, str]


def read_records(path: Path) -> list[Record]:
    """Read a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def find_citation_errors(reply: pb.RecallResponse, records_by_id: dict[str, Record], now: datetime) -> Iterator[str]:
    """Yield a description of each invalid citation in a reply."""
    view = reply.memory_view
    for statement in [*view.preferences, *view.profile, *view.constraints]:
        if not statement.citations:
            yield "a statement has no citation"
        for citation in statement.citations:
            message = records_by_id.get(citation.message_id)
            if message is None:
                yield f"{citation.message_id} is not a message of this user"
            elif message["content"][citation.span.start : citation.span.end] != citation.quote or not citation.quote:
                yield f"{citation.message_id}: the quote is not the text at the cited span"
            elif datetime.fromisoformat(message["ts"]) >= now:
                yield f"{citation.message_id} is not earlier than the question"


def to_message(record: Record) -> message_pb2.ChatMessage:
    """Convert a record to a ChatMessage."""
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


async def check_labeled_set(
    client: AsyncClient, messages: list[Record], questions: list[Record]
) -> tuple[Counter[str], int]:
    """Ask the questions of a labeled set; return counts of verdicts and statements, and of invalid citations."""
    counts, invalid, costs = Counter[str](), 0, []
    written = await client.import_messages([to_message(record) for record in messages])
    await client.lexical_search(messages[0]["user_id"], "a", at_least=written.write_token)
    records_by_user: dict[str, dict[str, Record]] = {}
    for record in messages:
        records_by_user.setdefault(record["user_id"], {})[record["message_id"]] = record
    for question in questions:
        now = datetime.fromisoformat(question["now"]).astimezone(UTC)
        began = time.process_time()
        reply = await client.recall(question["question"], user_id=question["user_id"], now=now)
        costs.append(time.process_time() - began)
        counts[pb.Verdict.Name(reply.verdict).removeprefix("VERDICT_").lower()] += 1
        counts["statements"] += sum(len(section) for section in _group_statements_by_section(reply.memory_view))
        for error in find_citation_errors(reply, records_by_user[question["user_id"]], now):
            invalid += 1
            print(f"{question['question_id']}: {error}")
    print(f"  {len(questions)} questions, median {1000 * median(costs):.0f} ms of CPU: {dict(counts)}")
    return counts, invalid


def _group_statements_by_section(view: pb.MemoryView) -> list[list[pb.Statement]]:
    return [list(view.preferences), list(view.profile), list(view.constraints)]


async def check_all_labeled_sets(data: Path, limit: int, embedder: str) -> int:
    """Check all labeled sets of a folder; return the number of invalid citations."""
    invalid = 0
    for path in sorted(data.glob("*messages.jsonl")):  # noqa: ASYNC240 - no other task is running
        questions = read_records(path.with_name(path.name.replace("messages", "questions")))[: limit or None]
        print(path.name)
        with tempfile.TemporaryDirectory() as directory:
            settings = Settings.from_environment(data=directory, listen="127.0.0.1:0", embedder=embedder)
            async with running_server(settings) as address, AsyncClient(str(address)) as client:
                _, invalid_in_set = await check_labeled_set(client, read_records(path), questions)
                invalid += invalid_in_set
    return invalid


def main() -> int:
    """Return 1 if a citation is invalid, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=0, help="maximum number of questions per set; 0: all")
    parser.add_argument("--embedder", default="none", choices=("none", "local"))
    arguments = parser.parse_args()
    configure_logs("warning")
    invalid = asyncio.run(check_all_labeled_sets(arguments.data, arguments.limit, arguments.embedder))
    print("all citations are valid" if not invalid else f"{invalid} citations are invalid")
    return 1 if invalid else 0


if __name__ == "__main__":
    sys.exit(main())
