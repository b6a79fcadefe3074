"""The reads of the API; each returns all messages of a user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from nomemory.v1 import message_pb2
from nomemory.v1 import query_service_pb2 as pb
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub
from proofs.torture.ledger import MessageVersion
from proofs.torture.writer import COMMON_WORD

ReadResult = list[tuple[str, MessageVersion]]
"""Message ids and versions in result order."""
Read = Callable[[QueryServiceStub, str, Sequence[str], int], ReadResult]
"""Function that reads all messages of a user.

Its arguments are the stub, the user id, all past and present message ids of the user, and the embedding dimension.
"""

_PAGE = 60
_TOP_K = 200
_AFTER = 200
_IDS = 500
_TIMEOUT_S = 30.0


def list_all_messages(
    query: QueryServiceStub, user_id: str, _ids: Sequence[str] = (), _dimension: int = 0
) -> ReadResult:
    """List all pages."""
    result: ReadResult = []
    cursor = ""
    while True:
        request = pb.ListMessagesRequest(user_id=user_id, page_size=_PAGE, cursor=cursor)
        page = query.ListMessages(request, timeout=_TIMEOUT_S)
        result += get_versions_by_id(page.items)
        if not (cursor := page.next_cursor):
            return result


def get_all_messages(query: QueryServiceStub, user_id: str, ids: Sequence[str], _dimension: int) -> ReadResult:
    """Get the messages with all past and present ids of the user."""
    result: ReadResult = []
    for start in range(0, len(ids), _IDS):
        request = pb.BatchGetMessagesRequest(user_id=user_id, message_ids=ids[start : start + _IDS])
        result += get_versions_by_id(query.BatchGetMessages(request, timeout=_TIMEOUT_S).items)
    return result


def lexical_search(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> ReadResult:
    """Search for the word that all messages contain."""
    result: ReadResult = []
    cursor = ""
    while True:
        request = pb.LexicalSearchRequest(user_id=user_id, query_text=COMMON_WORD, page_size=_PAGE, cursor=cursor)
        page = query.LexicalSearch(request, timeout=_TIMEOUT_S)
        result += get_versions_by_id(page.items)
        if not (cursor := page.next_cursor):
            return result


def semantic_search(query: QueryServiceStub, user_id: str, _ids: Sequence[str], dimension: int) -> ReadResult:
    """Run a semantic search without a minimum score."""
    vector = pb.Embedding(values=[1.0] * dimension)
    request = pb.SemanticSearchRequest(user_id=user_id, query_embedding=vector, top_k=_TOP_K)
    return get_versions_by_id(item.message for item in query.SemanticSearch(request, timeout=_TIMEOUT_S).items)


def list_by_neighbors(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> ReadResult:
    """Read neighbors repeatedly, starting from the oldest message."""
    first = query.ListMessages(
        pb.ListMessagesRequest(user_id=user_id, page_size=1, order=pb.LIST_ORDER_OLDEST_FIRST), timeout=_TIMEOUT_S
    )
    result = get_versions_by_id(first.items)
    while result:
        request = pb.GetNeighborsRequest(user_id=user_id, message_id=result[-1][0], before=0, after=_AFTER)
        next_result = get_versions_by_id(query.GetNeighbors(request, timeout=_TIMEOUT_S).items)[1:]
        result += next_result
        if not next_result:
            break
    return result


def export_all_messages(query: QueryServiceStub, user_id: str, _ids: Sequence[str], _dimension: int) -> ReadResult:
    """Export all messages."""
    stream = query.ExportMessages(pb.ExportMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S)
    return [version for batch in stream for version in get_versions_by_id(batch.messages)]


def find_wrong_retractions(query: QueryServiceStub, user_id: str) -> list[str]:
    """Return the ids of messages whose `retracted_by` is wrong."""
    stream = query.ExportMessages(pb.ExportMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S)
    oldest_first = [message for batch in stream for message in batch.messages]
    latest = {retracted: item.message_id for item in oldest_first for retracted in item.retracts}
    return [item.message_id for item in oldest_first if item.retracted_by != latest.get(item.message_id, "")]


def count_messages(query: QueryServiceStub, user_id: str) -> int:
    """Return the message count of a user."""
    return query.CountMessages(pb.CountMessagesRequest(user_id=user_id), timeout=_TIMEOUT_S).count


def count_by_conversations(query: QueryServiceStub, user_id: str) -> int:
    """Return the sum of the message counts of all conversations of a user."""
    page = query.ListConversations(pb.ListConversationsRequest(user_id=user_id, page_size=_PAGE), timeout=_TIMEOUT_S)
    return sum(conversation.message_count for conversation in page.conversations)


def list_users(query: QueryServiceStub) -> Iterator[tuple[str, int]]:
    """Yield all users with their message counts."""
    cursor = ""
    while True:
        page = query.ListUsers(pb.ListUsersRequest(page_size=500, cursor=cursor), timeout=_TIMEOUT_S)
        yield from ((user.user_id, user.message_count) for user in page.users)
        if not (cursor := page.next_cursor):
            return


READS: Mapping[str, Read] = {
    "list": list_all_messages,
    "get": get_all_messages,
    "lexical": lexical_search,
    "semantic": semantic_search,
    "neighbors": list_by_neighbors,
    "export": export_all_messages,
}


def get_versions_by_id(messages: Iterable[message_pb2.ChatMessage]) -> ReadResult:
    """Return the ids and versions of messages."""
    return [
        (message.message_id, MessageVersion(message.content, message.ts.ToMicroseconds(), message.conversation_id))
        for message in messages
    ]
