"""Two users who say the same words: neither sees, counts or ranks by what the other says."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from nomemory.v1 import query_service_pb2 as q
from proofs.conformance.dataset import WORDS, Dataset, differing, ids, vector
from proofs.conformance.world import Check, LeftOutError, World, refused


def _strangers(world: World) -> Iterator[str]:
    (one, token), (other, _) = world.dataset("one", 40), world.dataset("other", 40)
    mine, asked = set(ids(one.messages)), vector(world.random, one.dimension)
    for name, got in (
        ("list", ids(world.listed(one.user_id))),
        ("export", ids(world.exported(one.user_id))),
        *((word, ids(hit for hit, _ in world.found(one.user_id, word, at_least=token))) for word in WORDS),
        ("meaning", ids(hit for hit, _ in world.near(one.user_id, asked, at_least=token))),
    ):
        if strangers := set(got) - mine:
            yield f"{name} shows {len(strangers)} messages of somebody else"
    theirs = other.messages[0].message_id
    by_id = world.query.BatchGetMessages(q.BatchGetMessagesRequest(user_id=one.user_id, message_ids=[theirs]))
    if by_id.items:
        yield "another user's message is found by its id"
    request = q.GetNeighborsRequest(user_id=one.user_id, message_id=theirs)
    yield from refused(lambda: world.query.GetNeighbors(request), grpc.StatusCode.NOT_FOUND)
    (taking,) = other.say([99])
    taking.retracts.extend(sorted(mine)[:32])
    world.write([taking])
    if any(message.retracted_by for message in world.listed(one.user_id)):
        yield "another user takes one's messages back"
    deleted = world.delete(one.user_id, message_ids=[theirs]).deleted
    if deleted or theirs not in ids(world.listed(other.user_id)):
        yield "another user's message is deleted"


def _scores(world: World) -> Iterator[str]:
    (one, token), (other, _) = world.dataset("scored", 40), world.dataset("loud", 1)
    asked = vector(world.random, one.dimension)
    before = _answers(world, one, token, asked)
    token = world.write(other.say(range(1, 200))).write_token
    list(world.found(other.user_id, WORDS[0], at_least=token))
    world.near(other.user_id, asked, at_least=token)
    after = _answers(world, one, "", asked)
    yield from differing("answers while another user writes the same words", after, before)


def _answers(world: World, dataset: Dataset, token: str, asked: list[float]) -> list[bytes]:
    """Return the answers to the last bit; a cursor differs each time."""
    replies: list[bytes] = []
    for word in WORDS:
        request = q.LexicalSearchRequest(user_id=dataset.user_id, query_text=word, at_least=token)
        page = world.query.LexicalSearch(request)
        page.ClearField("next_cursor")
        replies.append(page.SerializeToString(deterministic=True))
    both = q.HybridSearchRequest(user_id=dataset.user_id, query_text=WORDS[0], at_least=token)
    both.query_embedding.values.extend(asked)
    return [*replies, world.query.HybridSearch(both).SerializeToString(deterministic=True)]


def _users(world: World) -> Iterator[str]:
    dataset, _ = world.dataset("named", 7)
    try:
        numbers = dict(_numbers(world))
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            raise LeftOutError("the key may not list users") from None
        raise
    if numbers.get(dataset.user_id) != len(dataset.messages):
        yield f"{numbers.get(dataset.user_id)} messages in place of {len(dataset.messages)}"


def _numbers(world: World) -> Iterator[tuple[str, int]]:
    cursor = ""
    while True:
        page = world.query.ListUsers(q.ListUsersRequest(page_size=world.info.limits.max_page_size, cursor=cursor))
        yield from ((user.user_id, user.message_count) for user in page.users)
        if not (cursor := page.next_cursor):
            return


CHECKS = (
    Check("no read shows, and no deletion touches, another user's messages", _strangers),
    Check("what another user says changes no answer by a bit", _scores),
    Check("users are listed with their counts", _users),
)
