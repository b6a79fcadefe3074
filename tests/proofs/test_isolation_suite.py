"""`scripts/isolation`, from end to end: a short run finds nothing, and a server that leaks is found out."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from identity.guarded import small
from identity.keyring import Keyring

from nomemory.server.settings import Settings
from nomemory.v1 import ingest_service_pb2 as i
from proofs.isolation import http2
from proofs.isolation.contract import METHODS, Outcome
from proofs.isolation.drawing import Drawing
from proofs.isolation.grpc_transport import open_grpc
from proofs.isolation.grpc_way import grpc_forms
from proofs.isolation.judge import Judge
from proofs.isolation.main import main
from proofs.isolation.names import attack_by_names
from proofs.isolation.raw_bytes import PATH_THAT_IS_NO_TEXT, attack_with_bytes
from proofs.isolation.stolen import attack_with_tokens
from proofs.isolation.timing import rank_test
from proofs.isolation.transport import Open
from proofs.isolation.world import Attacker, World, new_victims

if TYPE_CHECKING:
    from served import Server

NOBODY = Attacker("nobody", (), "", may_try_others=True)
CHANCE = random.Random(1)  # noqa: S311 - repeatable, not secret


@pytest.mark.timeout(300)
def test_a_short_run_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--share", "0.02", "--requests", "600", "--timings", "3", "--connections", "5", "--raw", "0"]
    code = main([*short, "--seed", "1"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "no problems" in printed
    assert "| requests that never end | 5 |" in printed


def test_a_server_that_runs_is_attacked_and_left_as_it_was(
    start: Callable[[Settings], AbstractContextManager[Server]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key = keyring.key("ingest", "query", "recall", "act-as")
    with start(small(tmp_path, api_keys=keyring.path)) as server:
        few = ["--share", "0.01", "--requests", "100", "--timings", "0", "--connections", "2", "--raw", "0"]
        code = main(["--target", server.target, "--token", key, "--seed", "2", *few])
        printed = capsys.readouterr().out
        assert code == 0, printed
        assert "left out: a user with a token" in printed
        status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest(), metadata=(("authorization", f"Bearer {key}"),))
        assert status.log.messages == 0


def test_a_server_that_shows_everybody_everything_is_found_out(vector_server: Server) -> None:
    assert leaking(open_grpc, vector_server.target) >= LEAKING


LEAKING = {"ListMessages", "LexicalSearch", "ExportMessages", "Recall", "StreamRecall"}


def leaking(way: Open, target: str) -> set[str]:
    """Return the RPCs that show a stranger what is a victim's, and nothing else is found."""
    with way(target, None) as transport:
        world = World(transport, (), [NOBODY], new_victims(2))
        world.plant()
        judge = Judge(world.canaries)
        attack_by_names(world, judge, 1.0, 1)
        world.erase()
    assert {problem.kind for problem in judge.problems} == {"leak"}
    return {problem.what.split()[0] for problem in judge.problems}


def bytes_sent(server: Server, wanted: Callable[[str], bool]) -> None:
    """Send the forms of bytes that are wanted; then the server has to answer as ever."""
    with open_grpc(server.target, None) as transport:
        world = World(transport, (), [NOBODY], new_victims(1))
        judge = Judge(world.canaries)
        forms = list(grpc_forms(server.target, world, CHANCE))
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda form: attack_with_bytes(server.target, [form], judge, wanted), forms))
    assert not judge.problems
    for _ in range(5):  # it may begin to listen again, and a server that is about to end answers a little longer
        time.sleep(0.1)
        with grpc.insecure_channel(server.target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True)


def test_bytes_that_are_no_request_hurt_nobody(vector_server: Server) -> None:
    bytes_sent(vector_server, lambda name: name != PATH_THAT_IS_NO_TEXT)


def test_a_path_that_is_not_utf_8_hurts_nobody(
    start: Callable[[Settings], AbstractContextManager[Server]], own_settings: Settings
) -> None:
    with start(own_settings) as server:
        bytes_sent(server, lambda name: name == PATH_THAT_IS_NO_TEXT)


def test_a_users_own_cursors_are_good_for_nobody_else(vector_server: Server) -> None:
    with open_grpc(vector_server.target, None) as transport:
        own = Attacker("a service", (), "cursor-thief", may_try_others=False, stored_as="cursor-thief")
        world = World(transport, (), [own], new_victims(1))
        world.plant()
        judge = Judge(world.canaries)
        attack_with_tokens(world, judge, 0.3, 1)
        world.erase()
    assert world.cursors
    assert not judge.problems


@pytest.mark.parametrize(
    ("code", "told", "is_from_server", "kind"),
    [
        (grpc.StatusCode.OK, b"... secret ...", True, "leak"),
        (grpc.StatusCode.NOT_FOUND, b"secret", True, "leak"),
        (grpc.StatusCode.INTERNAL, b"", True, "INTERNAL"),
        (grpc.StatusCode.UNKNOWN, b"", True, "UNKNOWN"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, b"", False, "hang"),
        (grpc.StatusCode.UNAVAILABLE, b"", False, "connection"),
        (grpc.StatusCode.UNAVAILABLE, b"a message of this answer is damaged", True, "damage"),
    ],
)
def test_the_judge_finds(code: grpc.StatusCode, told: bytes, is_from_server: bool, kind: str) -> None:  # noqa: FBT001 - a column
    judge = Judge([b"secret"])
    judge.see("a call", Outcome(code, told, 1.0, is_from_server, details=told.decode()))
    assert [problem.kind for problem in judge.problems] == [kind]


def test_refusals_are_no_problem() -> None:
    judge = Judge([b"secret"])
    for code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
        judge.see("a call", Outcome(code, b"no", 1.0, is_from_server=True))
    assert not judge.problems
    assert judge.calls == 3


@pytest.mark.parametrize("name", METHODS)
def test_a_request_of_every_method_is_drawn_and_again_from_the_same_seed(name: str) -> None:
    descriptor = METHODS[name].descriptor.input_type

    def drawn() -> list[bytes]:
        drawing = Drawing(random.Random(7), {"user_id": ["mallory"]}, 4)  # noqa: S311 - repeatable, not secret
        return [drawing.request(descriptor) for _ in range(20)]

    assert drawn() == drawn()
    if METHODS[name].request_type.DESCRIPTOR.fields:
        assert len(set(drawn())) > 2


def test_time_tells_only_where_there_is_a_difference() -> None:
    chance = np.random.default_rng(1)
    same = rank_test("same", chance.exponential(1, 500), chance.exponential(1, 500))
    slower = rank_test("slower", chance.exponential(1, 500) + 0.5, chance.exponential(1, 500))
    assert not same.tells
    assert slower.tells
    assert slower.share > 0.6


def test_headers_are_packed_as_hpack_says() -> None:
    assert http2.headers([("te", "trailers")]) == b"\0\x02te\x08trailers"
    assert http2.headers([("a", "b" * 300)]) == b"\0\x01a\x7f\xad\x01" + b"b" * 300
