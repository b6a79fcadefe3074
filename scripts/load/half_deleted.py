"""Does a user pay for what was deleted? `PYTHONPATH=scripts python -m load.half_deleted [--messages 100000]` (Linux).

One user says as many messages as are asked for. Another one says twice as many, of which every second is deleted: what
is left is what the first one said, word for word and at the same times. Both are then asked the same, in turn. Prints
the CPU time of a call for each, and how many of the answers are alike.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import uvloop
from load.cases import Case, heavy_cases
from load.closed_loop import each_once, methods
from load.corpus import BATCH, Said, unit_vector
from load.ingest import WRITE
from load.server_process import ServerProcess
from load.usage import run_ns
from load.words import draw, text_of

from nomemory.v1 import message_pb2
from nomemory.v1.ingest_service_pb2 import DeleteMessagesRequest, WriteMessagesRequest

WHOLE, HALVED = "whole", "halved"

_DELETE = "/nomemory.v1.IngestService/DeleteMessages"
_SEED = 17
_BEGIN_US = 1_735_689_600_000_000  # 2025-01-01
_APART_US = 60 * 1_000_000
_CONVERSATION = 20
_WITH_VECTOR = 10
"""One message in so many brings a vector."""
_NOTED = 400
_WRITERS = 4
_IDS = re.compile(rb"said-\d+")


@dataclass(slots=True)
class Talk:
    """What both users say, as requests that write it and delete from it. `said` is some of what is left."""

    writes: list[bytes] = field(default_factory=list)
    deletions: list[bytes] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)


def talk_of(messages: int) -> Talk:
    """Draw the talk: `messages` are left in the end."""
    random, talk = np.random.default_rng(_SEED), Talk()
    mine: list[message_pb2.ChatMessage] = []
    theirs: list[message_pb2.ChatMessage] = []
    for number, (words, is_chinese) in enumerate(draw(random, 2 * messages)):
        vector = unit_vector(random).tolist() if number // 2 % _WITH_VECTOR == 0 else []
        theirs.append(_message(HALVED, number, text_of(words, is_chinese), vector))
        if number % 2 == 0:
            mine.append(_message(WHOLE, number, text_of(words, is_chinese), vector))
            if number // 2 % max(1, messages // _NOTED) == 0:
                one = mine[-1]
                talk.said.append(Said(one.message_id, one.ts.ToMicroseconds(), one.role, words, is_chinese))
    for some in _batches([*mine, *theirs]):
        talk.writes.append(WriteMessagesRequest(messages=some).SerializeToString())
    for some in _batches(theirs[1::2]):
        ids = [one.message_id for one in some]
        talk.deletions.append(DeleteMessagesRequest(user_id=HALVED, message_ids=ids).SerializeToString())
    return talk


def _batches(messages: Sequence[message_pb2.ChatMessage]) -> Iterator[Sequence[message_pb2.ChatMessage]]:
    return (messages[at : at + BATCH] for at in range(0, len(messages), BATCH))


def _message(user_id: str, number: int, content: str, vector: Sequence[float]) -> message_pb2.ChatMessage:
    half = number // 2
    message = message_pb2.ChatMessage(
        message_id=f"said-{number}",
        user_id=user_id,
        role=message_pb2.ROLE_ASSISTANT if half % 2 else message_pb2.ROLE_USER,
        content=content,
        conversation_id=f"c{half // _CONVERSATION}",
        embedding=vector,
    )
    message.ts.FromMicroseconds(_BEGIN_US + number * _APART_US)
    return message


async def _each(target: str, method: str, requests: Sequence[bytes]) -> None:
    async with AsyncExitStack() as stack:
        [call] = await methods(stack, target, method, 1)
        await each_once([partial(call, request) for request in requests], _WRITERS)


async def _answers(target: str, case: Case) -> list[bytes]:
    """Call each request once, one after another."""
    async with AsyncExitStack() as stack:
        [call] = await methods(stack, target, case.method, 1)
        pairs = zip(case.requests, case.metadata, strict=True)
        return [await call(request, metadata=metadata) for request, metadata in pairs]


def compare(server: ServerProcess, whole: Case, halved: Case, rounds: int) -> str:
    """Return a row of the table."""
    costs: dict[str, list[float]] = {WHOLE: [], HALVED: []}
    answers: dict[str, list[bytes]] = {}
    for turn in range(rounds + 1):
        for name, case in ((WHOLE, whole), (HALVED, halved))[:: 1 if turn % 2 else -1]:
            before = run_ns(server.pids())
            answers[name] = uvloop.run(_answers(server.target, case))
            if turn:  # the first one warms up
                costs[name].append((run_ns(server.pids()) - before) / len(case.requests) / 1e6)
    ratio = statistics.median(b / a for a, b in zip(costs[WHOLE], costs[HALVED], strict=True))
    same = sum(_IDS.findall(a) == _IDS.findall(b) for a, b in zip(answers[WHOLE], answers[HALVED], strict=True))
    mine, theirs = statistics.median(costs[WHOLE]), statistics.median(costs[HALVED])
    name = whole.name.removesuffix(f"_{WHOLE}")
    return f"| {name} | {mine:.3f} | {theirs:.3f} | {ratio:.2f} | {same} of {len(whole.requests)} |"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000, help="messages that each of both users has in the end")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--reads", nargs="*", default=[""], help="names of reads, or how they begin; default: all")
    parser.add_argument(
        "--wiped",
        type=int,
        default=0,
        help="seconds after which what was deleted is out of all files: measure after that",
    )
    arguments = parser.parse_args()
    talk = talk_of(arguments.messages)
    with tempfile.TemporaryDirectory() as directory:
        variables = {"NOMEMORY_ERASE_WITHIN_S": str(arguments.wiped)} if arguments.wiped else {}
        server = ServerProcess(Path(directory) / "data", workers=1, variables=variables)
        try:
            server.start()
            uvloop.run(_each(server.target, WRITE, talk.writes))
            uvloop.run(_each(server.target, _DELETE, talk.deletions))
            server.wait_for_indexes()
            time.sleep(arguments.wiped)
            print("| read | CPU ms, nothing deleted | half deleted | ratio | same messages |\n|---|---|---|---|---|")
            for whole, halved in zip(heavy_cases(WHOLE, talk.said), heavy_cases(HALVED, talk.said), strict=True):
                if whole.name.startswith(tuple(arguments.reads)):
                    print(compare(server, whole, halved, arguments.rounds), flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
