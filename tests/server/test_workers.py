"""Several processes over one data directory behave as one server, whichever of them a connection lands in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from identity.authority import LOCALHOST, authority, issued
from identity.calls import EVERY, READS, WRITES, bearer
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring
from server.fleet import Fleet, fleet, until

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from talk import Refusal, ids, refusal, request_id_of, said

EAST, NORTH = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)
WORKERS = 3

Channels = Mapping[int, grpc.Channel]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("together") / "data", WORKERS) as running:
        yield running


@pytest.fixture(scope="module")
def channels(together: Fleet) -> Channels:
    return together.channels()


def write(channel: grpc.Channel, *messages: object, replace: bool = False) -> str:
    request = i.WriteMessagesRequest(messages=messages, replace=replace)  # type: ignore[arg-type]
    return IngestServiceStub(channel).WriteMessages(request, timeout=30).write_token


def listed(channel: grpc.Channel, user: str, at_least: str = "") -> list[str]:
    request = q.ListMessagesRequest(user_id=user, at_least=at_least)
    return ids(QueryServiceStub(channel).ListMessages(request, timeout=30).items)


def worded(channel: grpc.Channel, user: str, text: str, at_least: str = "") -> list[str]:
    request = q.LexicalSearchRequest(user_id=user, query_text=text, at_least=at_least)
    return ids(QueryServiceStub(channel).LexicalSearch(request, timeout=30).items)


def near(channel: grpc.Channel, user: str, at_least: str = "") -> list[tuple[str, float]]:
    request = q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=EAST), at_least=at_least)
    items = QueryServiceStub(channel).SemanticSearch(request, timeout=30).items
    return [(item.message.message_id, round(item.score, 3)) for item in items]


def test_every_write_is_seen_through_every_worker_with_its_token(channels: Channels, user: str) -> None:
    for n, (one, other) in enumerate(itertools.product(channels.values(), repeat=2)):
        at_least = write(one, said(user, f"m{n}", f"word{n}", ts=n, embedding=EAST))
        reads = reads_that_see(other, user, n, at_least)
        assert all(reads[(n + turn) % len(reads)]() for turn in range(len(reads)))  # the first one has to wait itself


def test_every_worker_says_what_took_a_message_back(channels: Channels, user: str) -> None:
    one, *_ = channels.values()
    token = write(one, said(user, "a", "tea", 1), said(user, "b", "tea", 2, retracts=["a"]))
    listing = q.ListMessagesRequest(user_id=user, at_least=token)
    words = q.LexicalSearchRequest(user_id=user, query_text="tea", at_least=token)
    for channel in channels.values():
        query = QueryServiceStub(channel)
        for items in (query.ListMessages(listing, timeout=30).items, query.LexicalSearch(words, timeout=30).items):
            assert [message.retracted_by for message in items] == ["", "b"]


def reads_that_see(channel: grpc.Channel, user: str, n: int, at_least: str) -> list[Callable[[], bool]]:
    return [
        lambda: listed(channel, user, at_least)[0] == f"m{n}",
        lambda: worded(channel, user, f"word{n}", at_least) == [f"m{n}"],
        lambda: (f"m{n}", 1.0) in near(channel, user, at_least),
    ]


def test_replacements_and_deletions_hold_in_every_worker_at_once(channels: Channels, user: str) -> None:
    for n, (one, other) in enumerate(itertools.product(channels.values(), repeat=2)):
        write(one, said(user, f"m{n}", "before", ts=n, embedding=EAST))
        at_least = write(other, said(user, f"m{n}", "afterwards", ts=n, embedding=NORTH), replace=True)
        assert worded(one, user, "before", at_least) == []
        assert worded(one, user, "afterwards", at_least) == [f"m{n}"]
        assert near(one, user, at_least) == [(f"m{n}", 0.0)]
        IngestServiceStub(other).DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=[f"m{n}"]))
        assert (listed(one, user), worded(one, user, "afterwards"), near(one, user)) == ([], [], [])


def test_a_cursor_goes_on_in_another_worker(channels: Channels, user: str) -> None:
    at_least = write(channels[1], *(said(user, f"m{n:02}", "tea", ts=n // 3) for n in range(20)))
    words = {n: QueryServiceStub(channel) for n, channel in channels.items()}
    for query_text in ("", "tea"):
        seen, cursor = [], ""
        for turn in itertools.cycle(words.values()):
            request = q.LexicalSearchRequest(
                user_id=user, query_text=query_text, page_size=3, cursor=cursor, at_least=at_least
            )
            page = turn.LexicalSearch(request, timeout=30)
            seen += ids(page.items)
            cursor = page.next_cursor
            write(channels[len(seen) % WORKERS], said(user, f"new-{query_text}{len(seen)}", "tea", ts=5))
            if not cursor:
                break
        assert [name for name in seen if name.startswith("m")] == sorted((f"m{n:02}" for n in range(20)), reverse=True)
        assert len(seen) == len(set(seen))


REFUSED: Mapping[str, Callable[[grpc.Channel, str], object]] = {
    "conflict": lambda c, user: write(c, said(user, "m", "other", embedding=EAST), said(user, "m2", "fine")),
    "bad fields": lambda c, user: write(c, said(user, "", "", embedding=(1.0,)), said("", "m", "x", name="n" * 999)),
    "no embedder": lambda c, user: QueryServiceStub(c).SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_text="tea")
    ),
    "bad token": lambda c, user: listed(c, user, "w_nonsense"),
    "bad cursor": lambda c, user: QueryServiceStub(c).ListMessages(q.ListMessagesRequest(user_id=user, cursor="c_x")),
    "not found": lambda c, user: QueryServiceStub(c).GetNeighbors(
        q.GetNeighborsRequest(user_id=user, message_id="none", before=1)
    ),
    "bad batch": lambda c, user: IngestServiceStub(c).ImportMessages(
        iter([i.ImportMessagesRequest(messages=[said(user, "i", "x")]), i.ImportMessagesRequest()])
    ),
    "no request": lambda c, _: c.unary_unary("/nomemory.v1.IngestService/WriteMessages", lambda raw: raw)(b"\xff\xff"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_a_fault_is_the_same_from_every_worker(
    channels: Channels, user: str, refused: Callable[[grpc.Channel, str], object]
) -> None:
    write(channels[0], said(user, "m", "first"))
    said_by: list[Refusal] = []
    for channel in channels.values():
        with pytest.raises(grpc.RpcError) as error:
            refused(channel, user)
        assert request_id_of(error.value)
        said_by.append(refusal(error.value))
    assert said_by == [said_by[0]] * WORKERS


def test_an_import_is_stored_batch_by_batch_and_says_what_it_refused(channels: Channels, user: str) -> None:
    for number, channel in channels.items():

        def stream(number: int = number) -> Iterator[i.ImportMessagesRequest]:
            for n in range(3):
                batch = [said(user, f"w{number}-{n}-{k}", "x", ts=n) for k in range(100)] + [said("", "bad", "x")]
                yield i.ImportMessagesRequest(messages=batch)
                assert until_listed(channels[0], user, f"w{number}-{n}-0")  # before the stream has ended

        answer = IngestServiceStub(channel).ImportMessages(stream(), timeout=60)
        assert (answer.created, len(answer.rejections)) == (300, 3)
        assert len(listed(channels[0], user, answer.write_token)) == 50


def until_listed(channel: grpc.Channel, user: str, message_id: str) -> bool:
    request = q.BatchGetMessagesRequest(user_id=user, message_ids=[message_id])
    return until(lambda: bool(QueryServiceStub(channel).BatchGetMessages(request, timeout=30).items))


def _is_settled(ask: Callable[[], i.GetIndexStatusResponse]) -> bool:
    """Return whether no index lacks the only message: what searches find, a status may say a moment later."""
    status = ask()
    return (status.log.messages, status.lexical.pending, status.vector.pending) == (1, 0, 0)


def test_every_worker_knows_how_far_the_indexes_are_and_says_that_it_serves(channels: Channels, user: str) -> None:
    at_least = write(channels[2], said(user, "m", "tea", embedding=EAST))
    near(channels[0], user, at_least)
    worded(channels[0], user, "tea", at_least)
    request = i.GetIndexStatusRequest(user_id=user)
    for channel in channels.values():
        ask = partial(IngestServiceStub(channel).GetIndexStatus, request, timeout=30)
        assert until(partial(_is_settled, ask))
        for name in ("", "nomemory.v1.QueryService", "nomemory.v1.IngestService"):
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=30)
            assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_words_and_meaning_together_rank_the_same_in_every_worker(channels: Channels, user: str) -> None:
    texts = ("tea in the garden", "green tea", "coffee", "a walk in the garden", "我不喝茶")
    at_least = write(
        channels[1], *(said(user, f"m{n}", text, ts=n, embedding=(1, n, 0, 0)) for n, text in enumerate(texts))
    )
    request = q.HybridSearchRequest(
        user_id=user, query_text="tea garden", query_embedding=q.Embedding(values=EAST), at_least=at_least, explain=True
    )
    answers = [QueryServiceStub(channel).HybridSearch(request, timeout=30) for channel in channels.values()]
    assert answers[0].items
    assert not answers[0].words_only
    assert answers == [answers[0]] * WORKERS


def test_logs_say_which_worker_wrote_them(together: Fleet, channels: Channels) -> None:
    assert set(channels) == set(range(WORKERS))
    assert all("worker" in line for line in together.lines())
    assert {line["worker"] for line in together.lines() if line["event"] == "serving"} == set(range(WORKERS))


def test_credentials_hold_in_every_worker_over_tls(tmp_path: Path, user: str) -> None:
    keyring, ca = Keyring(tmp_path / "keys.json"), authority()
    certificate, key = issued(ca, "server", *LOCALHOST).written_to(tmp_path, "server")
    service = keyring.key("query", "ingest", "recall")
    guards = {
        "NOMEMORY_API_KEYS": str(keyring.path), "NOMEMORY_JWT_SECRET": SECRET, "NOMEMORY_JWT_ISSUER": ISSUER,
        "NOMEMORY_JWT_AUDIENCE": AUDIENCE, "NOMEMORY_TLS_CERT": str(certificate), "NOMEMORY_TLS_KEY": str(key),
    }  # fmt: skip

    def connect(target: str) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials(ca.pem())
        return grpc.secure_channel(target, credentials, options=[("grpc.use_local_subchannel_pool", 1)])

    with fleet(tmp_path / "data", 2, connect, **guards) as guarded:
        for channel in guarded.channels().values():
            for name, rpc in EVERY.items():
                assert code(rpc.send, channel, user, ()) == "UNAUTHENTICATED", name
            for name, rpc in (*WRITES.items(), ("WriteMessages", WRITES["WriteMessages"]), *READS.items()):
                assert code(rpc.send, channel, user, bearer(service)) == "OK", name
            own = bearer(token(user))
            assert {code(rpc.send, channel, user, own) for rpc in READS.values()} == {"OK"}
            assert {code(rpc.send, channel, f"{user}-other", own) for rpc in READS.values()} == {"PERMISSION_DENIED"}
            assert {code(rpc.send, channel, user, own) for rpc in WRITES.values()} == {"PERMISSION_DENIED"}


def code(send: Callable[..., object], channel: grpc.Channel, user: str, metadata: object) -> str:
    try:
        send(channel, user, metadata)
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"
