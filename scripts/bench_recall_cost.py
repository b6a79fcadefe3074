"""What does a recall cost? `python scripts/bench_recall_cost.py [--messages 500] [--recalls 60]` (Linux).

Gives one user that many messages, made of the sample, waits for the indexes, and asks the sample's questions one after
another. Each question gets a word of its own, so that its embedding is not remembered. Reported: the CPU time of the
server's whole process tree per recall, the embedding included, and the time that the caller waits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from evaluation.asking import Recall, ask_all
from evaluation.labelled_file import Question
from evaluation.labelled_set import wait_for_indexes
from evaluation.temporary_server import temporary_server
from nomemory.client import Client

SAMPLE = Path(__file__).parent.parent / "sample"
USER = "bench"


def records(name: str) -> list[dict[str, Any]]:
    """Read a file of the sample."""
    return [json.loads(line) for line in (SAMPLE / name).read_text(encoding="utf-8").splitlines()]


def messages(count: int) -> Iterator[dict[str, Any]]:
    """Make one user's messages of the sample's, over and over, each with a number so that none is equal."""
    said = [one for one in records("messages.jsonl") if one["user_id"] != "mei"]
    for n in range(count):
        one = said[n % len(said)]
        yield {
            "user_id": USER,
            "message_id": f"m{n:06}",
            "ts": datetime.fromisoformat(one["ts"]) - timedelta(days=400 * (n // len(said))),
            "role": one["role"],
            "content": f"{one['content']} ({n})",
            "conversation_id": one["conversation_id"],
        }


def questions(count: int) -> Iterator[Question]:
    """Make questions of the sample's, over and over, none equal to another."""
    asked = [one["question"] for one in records("questions.jsonl")]
    for n in range(count):
        yield Question(str(n), USER, f"{asked[n % len(asked)]} #{n}", "cost", frozenset(), None)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--recalls", type=int, default=60)
    arguments = parser.parse_args()
    with temporary_server({"NOMEMORY_EMBEDDING_CACHE": None}) as server, Client(server.target) as client:
        made: Any = messages(arguments.messages)
        client.import_messages(made)
        wait_for_indexes(client)
        answers = list(ask_all(client, Recall(), questions(arguments.recalls), server.cpu_ms))
    costs = [one.cpu_ms for one in answers if one.cpu_ms is not None]
    waits = [one.latency_ms for one in answers]
    for name, figures in (("CPU of the server", costs), ("waiting", waits)):
        print(f"{name}: p50 {median(figures):.0f} ms, p95 {quantiles(figures, n=20)[-1]:.0f} ms per recall")


if __name__ == "__main__":
    main()
