"""Tests that reads with a write token see that write without waiting for backlogs of other users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from chat_messages import ids, new_message
from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import query_service_pb2 as q
from rpc_errors import refusal

if TYPE_CHECKING:
    from running_server import Server

pytestmark = pytest.mark.both_logs

EAST, NORTH = (1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)


def write(server: Server, *messages: object, replace: bool = False) -> str:
    return server.ingest.WriteMessages(i.WriteMessagesRequest(messages=messages, replace=replace)).write_token  # type: ignore[arg-type]


def lexical(server: Server, user: str, query: str, token: str) -> list[str]:
    return ids(server.query.LexicalSearch(q.LexicalSearchRequest(user_id=user, query_text=query, at_least=token)).items)


def semantic(server: Server, user: str, vector: tuple[float, ...], token: str) -> list[str]:
    request = q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=vector), at_least=token)
    return [item.message.message_id for item in server.query.SemanticSearch(request).items]


def test_every_read_sees_a_write_with_its_token(vector_server: Server, user: str) -> None:
    for n in range(5):
        token = write(vector_server, new_message(user, f"m{n}", f"word{n}", ts=n, embedding=EAST))
        listed = vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user, at_least=token))
        assert ids(listed.items)[0] == f"m{n}"
        assert lexical(vector_server, user, f"word{n}", token) == [f"m{n}"]
        assert f"m{n}" in semantic(vector_server, user, EAST, token)


def test_replacements_and_deletions_are_seen_with_their_tokens(vector_server: Server, user: str) -> None:
    write(vector_server, new_message(user, "m", "before", ts=1, embedding=EAST))
    token = write(vector_server, new_message(user, "m", "afterwards", ts=9, embedding=NORTH), replace=True)
    assert lexical(vector_server, user, "afterwards", token) == ["m"]
    assert lexical(vector_server, user, "before", token) == []
    near = vector_server.query.SemanticSearch(
        q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=NORTH), at_least=token)
    )
    assert [item.score for item in near.items] == [pytest.approx(1.0)]
    gone = vector_server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=["m"])).write_token
    assert lexical(vector_server, user, "afterwards", gone) == []
    assert semantic(vector_server, user, NORTH, gone) == []


def test_token_of_an_unchanged_write_covers_the_original_write(vector_server: Server, user: str) -> None:
    message = new_message(user, "m", "word", embedding=EAST)
    write(vector_server, message)
    token = write(vector_server, message)
    assert lexical(vector_server, user, "word", token) == ["m"]
    assert semantic(vector_server, user, EAST, token) == ["m"]


@pytest.mark.parametrize("token", ["w_", "nonsense", "w_" + "A" * 60])
def test_invalid_write_token_is_rejected(vector_server: Server, user: str, token: str) -> None:
    calls: list[tuple[Any, Any]] = [
        (vector_server.query.ListMessages, q.ListMessagesRequest(user_id=user, at_least=token)),
        (vector_server.query.LexicalSearch, q.LexicalSearchRequest(user_id=user, at_least=token)),
        (
            vector_server.query.SemanticSearch,
            q.SemanticSearchRequest(user_id=user, query_embedding=q.Embedding(values=EAST), at_least=token),
        ),
    ]
    for call, request in calls:
        with pytest.raises(grpc.RpcError) as error:
            call(request)
        refused = refusal(error.value)
        assert (refused.reason, refused.fields) == ("WRITE_TOKEN_INVALID", ["at_least"])


def test_deletions_take_effect_immediately_in_every_read(vector_server: Server, user: str) -> None:
    token = write(vector_server, *(new_message(user, f"m{n}", "word", ts=n, embedding=EAST) for n in range(4)))
    lexical(vector_server, user, "word", token)
    semantic(vector_server, user, EAST, token)
    gone = vector_server.ingest.DeleteMessages(i.DeleteMessagesRequest(user_id=user, message_ids=["m1", "m3", "x"]))
    assert (gone.deleted, list(gone.missing_message_ids)) == (2, ["x"])
    assert ids(vector_server.query.ListMessages(q.ListMessagesRequest(user_id=user)).items) == ["m2", "m0"]
    assert lexical(vector_server, user, "word", "") == ["m2", "m0"]
    assert semantic(vector_server, user, EAST, "") == ["m2", "m0"]
    around = vector_server.query.GetNeighbors(q.GetNeighborsRequest(user_id=user, message_id="m2"))
    assert ids(around.items) == ["m0", "m2"]
    got = vector_server.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=user, message_ids=["m3", "m0"]))
    assert (ids(got.items), list(got.missing_message_ids)) == (["m0"], ["m3"])
