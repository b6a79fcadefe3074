"""Tests that random hostile requests over gRPC and HTTP leak nothing and are answered in time.

FUZZ_REQUESTS sets the number of requests of each kind, FUZZ_SEED the seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import Message
from isolation.assertions import findings_of, findings_of_answer
from isolation.conftest import ALLOWED_ORIGIN
from isolation.fixtures import DIMENSION, TOPIC, Attacker, World
from isolation.malformed_http import malformed
from isolation.request_generator import RequestGenerator

from proofs.contract import METHODS, CallOutcome, Metadata, RpcMethod
from proofs.finding import Finding
from proofs.grpc_transport import GrpcTransport
from proofs.http_requests import HttpRequest, encode_http_request
from proofs.http_transport import HttpTransport, build_http_headers

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "500"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
THREADS = 4
HTTP_PATH_MAX = 16_000
"""The head of a request has to have room for the path."""
ODD_REQUEST_IDS = ("", "a b", "x" * 500, '{"a": 1}')
QUERIES = (
    TOPIC,
    "火锅",
    "What do I like?",
    "我喜欢什么？",
    f'"{TOPIC}" AND NOT 火锅',
    "yesterday",
    "我上个月说了什么",
)

Fuzzer = Callable[[random.Random], Iterator[Finding]]
pytestmark = pytest.mark.timeout(120 + REQUESTS // 10)


def values(world: World, attacker: Attacker) -> Mapping[str, Sequence[Any]]:
    """Return the field values of an attacker by name: own ids, guessed ids and stolen tokens."""
    guesses = [world.victims[0].user_id, "b/mallory", "a/mallory", "../b/lin"] if attacker.may_name_others else []
    message_ids = ["own-0", "own-1", *world.message_ids]
    skill = "nomemory-recall-default"
    return {
        "user_id": [*[attacker.user_id] * 4, *guesses],
        "message_id": message_ids,
        "message_ids": message_ids,
        "retracts": message_ids,
        "query_text": QUERIES,
        "question": QUERIES,
        "cursor": ["", *world.cursors],
        "at_least": ["", *world.write_tokens],
        "conversation_id": ["", "own", "talk"],
        "skill": ["", skill, "../../../etc", "/etc/passwd", "x" * 300, f"{skill}/.."],
        "time_zone": ["", "UTC", "Asia/Shanghai", "../../../etc/passwd", "/etc/localtime", "posixrules", "\x00"],
        "paths": ["content", "user_id", "message_id", "embedding", "*", "content.x", "", "metadata", "a" * 300],
    }


def metadata(world: World, attacker: Attacker, chance: random.Random) -> Metadata:
    """Return the credentials of an attacker, with additional valid or invalid user headers."""
    attacker_id, victim = attacker.user_id, world.victims[0].user_id
    named: list[Metadata] = [(("x-user-id", attacker_id),), (("x-user-id-bin", attacker_id.encode()),), ()]
    if attacker.may_name_others:
        named += [
            (("x-user-id", victim),),
            (("x-user-id", attacker_id), ("x-user-id", victim)),
            (("x-user-id-bin", b"\xff"),),
        ]
    request_id: Metadata = (("x-request-id", chance.choice(ODD_REQUEST_IDS)),) if chance.random() < 0.1 else ()
    return (*attacker.metadata, *chance.choice(named), *request_id)


def drawn(world: World, chance: random.Random) -> tuple[RpcMethod, Attacker, RequestGenerator]:
    """Draw a method and a caller; authorized callers are drawn more often."""
    at = min(chance.randrange(len(world.attackers)) for _ in range(3))
    attacker, method = world.attackers[at], chance.choice(list(METHODS.values()))
    fixed = frozenset() if attacker.may_name_others else frozenset({"user_id"})
    return method, attacker, RequestGenerator(chance, values(world, attacker), DIMENSION, fixed)


def drawn_for_http(generator: RequestGenerator, method: RpcMethod) -> tuple[Message, HttpRequest]:
    """Draw a request that JSON can express."""
    while True:
        request = generator.message(method.descriptor.input_type)
        try:
            encoded = encode_http_request(method.descriptor, MessageToDict(request))
        except SerializeToJsonError:
            continue
        if len(encoded.path) <= HTTP_PATH_MAX:
            return request, encoded


def findings(fuzzer: Fuzzer) -> list[Finding]:
    """Run a fuzzer in several threads; return all problems. The seed determines the requests of each thread."""

    def run(thread: int) -> list[Finding]:
        seed = SEED + thread
        chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        return [
            replace(finding, description=f"FUZZ_SEED={seed}, request {n}: {finding.description}")
            for n in range(REQUESTS // THREADS)
            for finding in fuzzer(chance)
        ]

    with ThreadPoolExecutor(THREADS) as threads:
        return [finding for thread_findings in threads.map(run, range(THREADS)) for finding in thread_findings]


def test_random_grpc_requests_leak_nothing(world: World) -> None:
    with world.channel() as channel:
        transport = GrpcTransport(channel)

        def fuzz(chance: random.Random) -> Iterator[Finding]:
            method, attacker, generator = drawn(world, chance)
            request = generator.request(method.descriptor.input_type)
            outcome: CallOutcome = transport.call(method, request, metadata(world, attacker, chance))
            yield from findings_of(f"{method.name} by {attacker.name}", outcome, world.canaries)

        assert findings(fuzz) == []


def test_random_http_requests_leak_nothing(world: World) -> None:
    with HttpTransport(f"http://{world.server.http}") as transport:

        def fuzz(chance: random.Random) -> Iterator[Finding]:
            method, attacker, generator = drawn(world, chance)
            request, _ = drawn_for_http(generator, method)
            outcome = transport.call(method, request.SerializeToString(), metadata(world, attacker, chance))
            yield from findings_of(f"{method.name} by {attacker.name}", outcome, world.canaries)

        assert findings(fuzz) == []


def test_malformed_http_requests_leak_nothing(world: World) -> None:
    with HttpTransport(f"http://{world.server.http}") as transport:

        def fuzz(chance: random.Random) -> Iterator[Finding]:
            method, attacker, generator = drawn(world, chance)
            if not attacker.may_name_others:
                return
            _, valid = drawn_for_http(generator, method)
            headers = (*valid.headers, *build_http_headers(attacker.metadata))
            request = malformed(replace(valid, headers=headers), chance, world)
            call = f"{request.verb} for {method.name} by {attacker.name}"
            yield from answer_problems(world, transport, request, call)

        assert findings(fuzz) == []


def answer_problems(world: World, transport: HttpTransport, request: HttpRequest, call: str) -> Iterator[Finding]:
    """Send a malformed request; yield the problems in the response."""
    try:
        answer = transport.send(request)
    except (httpx.InvalidURL, httpx.LocalProtocolError):  # the client library does not send such a request
        return
    except httpx.HTTPError as error:
        yield Finding("no answer", f"{call}: {error!r}")
        return
    if answer.headers.get("access-control-allow-origin", ALLOWED_ORIGIN) != ALLOWED_ORIGIN:
        yield Finding("origin", f"{call}: {answer.headers['access-control-allow-origin']} may call")
    yield from findings_of_answer(call, answer, world.canaries)


def test_fuzzing_changes_neither_server_nor_other_users(world: World) -> None:
    processes, messages = world.server.find_pids_by_role(), world.messages_of_victims()
    assert processes == world.processes_at_start
    assert messages == world.messages_at_start
    log = world.server.log.read_bytes()
    assert not [canary for canary in world.canaries if canary in log]
    assert b"Traceback" not in log
