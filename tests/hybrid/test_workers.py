"""Whichever process answers, it answers the same."""

from __future__ import annotations

from pathlib import Path

from hybrid.asking import DAY, EAST, chat, until
from server.fleet import fleet

from nomemory.v1 import ingest_service_pb2 as i
from nomemory.v1 import message_pb2 as m
from nomemory.v1 import query_service_pb2 as q
from nomemory.v1.ingest_service_pb2_grpc import IngestServiceStub
from nomemory.v1.query_service_pb2_grpc import QueryServiceStub


def test_every_worker_gives_the_same_to_the_bit(tmp_path: Path) -> None:
    talk = chat("u", 80, name="Ann", conversation_id="c")
    for n, one in enumerate(talk[::2]):
        one.embedding.extend((1.0, n / 40, 0.0, 0.0))
    questions = ("What film did Ann watch last night?", "mushrooms and 爬山 with a bicycle", "How was lunch? Tired?")
    with fleet(tmp_path / "data", 3) as together:
        channels = together.channels()
        for gone in (0, 20):
            writer = IngestServiceStub(channels[min(channels)])
            if gone:
                ids = [one.message_id for one in talk[:gone]]
                token = writer.DeleteMessages(i.DeleteMessagesRequest(user_id="u", message_ids=ids)).write_token
            else:
                token = writer.WriteMessages(i.WriteMessagesRequest(messages=talk)).write_token
            for question in questions:
                for narrowed in (m.Filter(), until(DAY / 24)):
                    request = q.HybridSearchRequest(
                        user_id="u", query_text=question, query_embedding=q.Embedding(values=EAST),
                        filter=narrowed, explain=True, top_k=200, at_least=token,
                    )  # fmt: skip
                    answers = [QueryServiceStub(channel).HybridSearch(request) for channel in channels.values()]
                    assert answers[0].items
                    assert all(answer == answers[0] for answer in answers)
