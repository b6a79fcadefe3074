"""Every read by which a message can be found, each as: all that it finds of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from proofs.torture.ledger import Version
from proofs.torture.writer import COMMON_WORD

Found = list[tuple[str, Version]]
"""Message ids with what they say, in the order in which a read brought them."""
Read = Callable[[QueryServiceStub, str, Sequence[str], int], Found]
"""Takes the service, a user, all ids that the user ever had, and the dimension of vectors."""

_PAGE = 60
_TOP_K = 200
_AFTER = 200
_IDS = 500
_TIMEOUT_S = 30.0


def listed(query: QueryServiceStub, user_id: str, _ids: Sequence[str] = (), _dimension: int = 0) -> Found:
    """List, page by page."""
    found: Found = []
    cursor = ""
    while True:
        request = pb.ListMessagesRequest(user_id=user_id, page_size=_PAGE, cursor=cursor)
        page = query.ListMessages(request, timeout=_TIMEOUT_S)
        found += versions(page.items)
        if not (cursor := page.next_cursor):
            return found


def got(query: QueryServiceStub, user_id: str, ids: Sequence[str], _dimension: int) -> Found:
    """Ask for all the ids that the user ever had."""
    found: Found = []
    for start in range(0, len(ids), _IDS):
        request = pb.BatchGetMessagesRequest(user_id=user_id, message_ids=ids[start : start + _IDS])
        found += versions(query.BatchGetMessages(request, timeout=_TIMEOUT_S).items)
    return found


def by_words(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> Found:
    """Search for the word that all messages have."""
    found: Found = []
    cursor = ""
    while True:
        request = pb.LexicalSearchRequest(user_id=user_id, query_text=COMMON_WORD, page_size=_PAGE, cursor=cursor)
        page = query.LexicalSearch(request, timeout=_TIMEOUT_S)
        found += versions(page.items)
        if not (cursor := page.next_cursor):
            return found


def by_meaning(query: QueryServiceStub, user_id: str, _ids: Sequence[str], dimension: int) -> Found:
    """Search for a vector, however far away."""
    vector = pb.Embedding(values=[1.0] * dimension)
    request = pb.SemanticSearchRequest(user_id=user_id, query_embedding=vector, top_k=_TOP_K)
    return versions(item.message for item in query.SemanticSearch(request, timeout=_TIMEOUT_S).items)


def by_neighbourhood(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> Found:
    """Walk from neighbour to neighbour, from the first message on."""
    first = query.ListMessages(
        pb.ListMessagesRequest(user_id=user_id, page_size=1, order=pb.LIST_ORDER_OLDEST_FIRST), timeout=_TIMEOUT_S
    )
    found = versions(first.items)
    while found:
        request = pb.GetNeighborsRequest(user_id=user_id, message_id=found[-1][0], before=0, after=_AFTER)
        further = versions(query.GetNeighbors(request, timeout=_TIMEOUT_S).items)[1:]
        found += further
        if not further:
            break
    return found


def exported(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> Found:
    """Export."""
    stream = query.ExportMessages(pb.ExportMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S)
    return [version for batch in stream for version in versions(batch.messages)]


def wrongly_marked(query: QueryServiceStub, user_id: str) -> list[str]:
    """Return the ids of the messages that do not say what took them back, or say it of what nothing did."""
    stream = query.ExportMessages(pb.ExportMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S)
    oldest_first = [message for batch in stream for message in batch.messages]
    latest = {taken: item.message_id for item in oldest_first for taken in item.retracts}
    return [item.message_id for item in oldest_first if item.retracted_by != latest.get(item.message_id, "")]


def counted(query: QueryServiceStub, user_id: str) -> int:
    """Count."""
    return query.CountMessages(pb.CountMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S).count


def in_conversations(query: QueryServiceStub, user_id: str) -> int:
    """Add up the conversations' counts: every message here is in one."""
    page = query.ListConversations(pb.ListConversationsRequest(user_id=user_id, page_size=_PAGE), timeout=_TIMEOUT_S)
    return sum(conversation.message_count for conversation in page.conversations)


def users(query: QueryServiceStub) -> Iterator[tuple[str, int]]:
    """List all users with their counts."""
    cursor = ""
    while True:
        page = query.ListUsers(pb.ListUsersRequest(page_size=500, cursor=cursor), timeout=_TIMEOUT_S)
        yield from ((user.user_id, user.message_count) for user in page.users)
        if not (cursor := page.next_cursor):
            return


READS: Mapping[str, Read] = {
    "list": listed,
    "get": got,
    "words": by_words,
    "meaning": by_meaning,
    "neighbourhood": by_neighbourhood,
    "export": exported,
}


def versions(messages: Iterable[message_pb2.ChatMessage]) -> Found:
    """Take what a message says out of messages of a reply."""
    return [
        (message.message_id, Version(message.content, message.ts.ToMicroseconds(), message.conversation_id))
        for message in messages
    ]
