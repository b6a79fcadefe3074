"""Messages and replies as JSON: the contract's field names, times as RFC 3339, a message in the form of an import."""

from __future__ import annotations

from datetime import UTC
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from nomemory.cli.check import Check
from nomemory.cli.import_summary import Summary
from nomemory.client.hits import LexicalHit
from nomemory.client.messages import role_name
from nomemory.client.prompt import oldest_first
from nomemory.v1 import ingest_service_pb2, message_pb2, query_service_pb2, recall_service_pb2, server_service_pb2

Json = dict[str, object]

_OPTIONAL: Final = ("name", "conversation_id")


def message_record(message: message_pb2.ChatMessage) -> Json:
    """Return a message as `nomemory import` takes it. Empty optional fields are left out.

    So is an empty user: the messages of a recall do not name theirs.
    """
    record: Json = {"user_id": message.user_id} if message.user_id else {}
    record |= {
        "message_id": message.message_id,
        "ts": rfc3339(message.ts),
        "role": role_name(message.role),
        "content": message.content,
    }
    record.update({field: getattr(message, field) for field in _OPTIONAL if getattr(message, field)})
    if message.HasField("expire_ts"):
        record["expire_ts"] = rfc3339(message.expire_ts)
    if message.metadata:
        record["metadata"] = dict(sorted(message.metadata.items()))
    return record


def lexical_record(hit: LexicalHit) -> Json:
    """Return a hit: the message, its score and, if asked for, its highlight."""
    record = {**message_record(hit.message), "score": round(hit.score, 6)}
    if hit.highlight is not None:
        record["highlight"] = {
            "spans": [_span(span) for span in hit.highlight.spans],
            "snippet": _span(hit.highlight.snippet),
            "snippet_text": hit.highlight.snippet_text,
        }
    return record


def semantic_record(item: query_service_pb2.SemanticItem) -> Json:
    """Return a hit: the message and its score."""
    return {**message_record(item.message), "semantic_score": round(item.score, 6)}


def hybrid_record(item: query_service_pb2.HybridItem) -> Json:
    """Return a hit: the message, its score and, if asked for, what that is made of."""
    record = {**message_record(item.message), "score": round(item.score, 6)}
    if item.HasField("explanation"):
        made_of = item.explanation
        record["explanation"] = {
            "semantic_score": round(made_of.semantic_score, 6),
            "lexical_score": round(made_of.lexical_score, 6),
            "coverage": round(made_of.coverage, 6),
            "components": {part.name: round(part.value, 6) for part in made_of.components},
        }
    return record


def answered_record(reply: query_service_pb2.HybridSearchResponse) -> Json:
    """Return how likely it is that what was found answers the question, and how that was found out."""
    return {
        "sufficiency": round(reply.sufficiency, 6),
        "told_apart": reply.told_apart,
        "words_only": reply.words_only,
        "embedding_model": reply.embedding_model,
    }


def status_record(reply: ingest_service_pb2.GetIndexStatusResponse) -> Json:
    """Return the whole status."""
    log = reply.log
    return {
        "log": {
            "sequence": log.sequence,
            "messages": log.messages,
            "users": log.users,
            "damaged": log.damaged,
            "fault": log.fault,
        },
        "lexical": _index(reply.lexical),
        "vector": _index(reply.vector),
        "embedder": _embedder(reply.embedder),
        **_coming(reply),
        "faults": [
            {"part": fault.part, "kind": fault.kind, "since": rfc3339(fault.since), "detail": fault.detail}
            for fault in reply.faults
        ],
    }


def server_info_record(reply: server_service_pb2.GetServerInfoResponse) -> Json:
    """Return the whole description; `reads` is null where the server does not say how busy it is."""
    limits = {field.name: getattr(reply.limits, field.name) for field in reply.limits.DESCRIPTOR.fields}
    reads = {field.name: getattr(reply.reads, field.name) for field in reply.reads.DESCRIPTOR.fields}
    return {
        "version": reply.version,
        "embedding_model": reply.embedding_model,
        "embedding_dimension": reply.embedding_dimension,
        "features": list(reply.features),
        "limits": limits,
        "reads": reads if reply.HasField("reads") else None,
    }


def deletion_record(reply: ingest_service_pb2.DeleteMessagesResponse) -> Json:
    """Return the receipt of a deletion."""
    return {
        "deleted": reply.deleted,
        "missing_message_ids": list(reply.missing_message_ids),
        "write_token": reply.write_token,
    }


def erasure_record(reply: ingest_service_pb2.EraseUserResponse) -> Json:
    """Return the receipt of an erasure. A residue whose end cannot be told has no `expire_ts`."""
    return {
        "deleted": reply.deleted,
        "sequence": reply.sequence,
        "write_token": reply.write_token,
        "erase_ts": rfc3339(reply.erase_ts),
        "residues": [_residue(one) for one in reply.residues],
    }


def conversation_record(conversation: query_service_pb2.Conversation) -> Json:
    """Return a conversation."""
    return {
        "conversation_id": conversation.conversation_id,
        "first_ts": rfc3339(conversation.first_ts),
        "last_ts": rfc3339(conversation.last_ts),
        "message_count": conversation.message_count,
    }


def summary_record(summary: Summary) -> Json:
    """Return what became of a file."""
    tally = summary.tally
    record: Json = {
        "file": summary.source,
        "format": summary.format,
        "dry_run": summary.dry_run,
        "sent": tally.sent,
        "created": tally.created,
        "unchanged": tally.unchanged,
        "replaced": tally.replaced,
        "rejected": tally.rejected,
        "skipped": tally.skipped,
        "ignored_fields": dict(sorted(summary.ignored.items())),
        "write_token": summary.write_token,
    }
    return record | ({"rejects": str(summary.rejects)} if summary.rejects else {})


def check_record(check: Check) -> Json:
    """Return what a check found."""
    return {"check": check.name, "state": check.state, "finding": check.finding, "advice": check.advice}


def recall_record(reply: recall_service_pb2.RecallResponse) -> Json:
    """Return the answer of a recall in the contract's form, but for messages and roles. Empty fields are left out.

    `evidence` stands best first; `oldest_first` has its ids in the order of time.
    """
    record = _contract_form(reply)
    if reply.evidence:
        record["evidence"] = [
            _contract_form(item) | {"message": message_record(item.message)} for item in reply.evidence
        ]
        record["oldest_first"] = [item.message.message_id for item in oldest_first(reply)]
    if reply.limits.role:
        record["limits"] = _contract_form(reply.limits) | {"role": role_name(reply.limits.role)}
    return record


def rfc3339(ts: Timestamp) -> str:
    """Write a time, with microseconds only where it has some."""
    return ts.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def _contract_form(message: Message) -> Json:
    form: Json = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return form


def _span(span: message_pb2.Span) -> Json:
    return {"start": span.start, "end": span.end}


def _residue(residue: ingest_service_pb2.ErasureResidue) -> Json:
    record: Json = {"place": residue.place, "until": residue.until}
    return record | ({"expire_ts": rfc3339(residue.expire_ts)} if residue.HasField("expire_ts") else {})


def _index(index: ingest_service_pb2.IndexStatus) -> Json:
    record: Json = {
        "name": index.name,
        "checkpoint": index.checkpoint,
        "pending": index.pending,
        "parked": index.parked,
        "parked_message_ids": list(index.parked_message_ids),
        "fault": index.fault,
        "notice": index.notice,
    }
    return record | ({"fault_since": rfc3339(index.fault_since)} if index.HasField("fault_since") else {})


def _embedder(embedder: ingest_service_pb2.EmbedderStatus) -> Json:
    return {
        "kind": embedder.kind,
        "model": embedder.model,
        "dimension": embedder.dimension,
        "texts_embedded": embedder.texts_embedded,
    }


def _coming(reply: ingest_service_pb2.GetIndexStatusResponse) -> Json:
    """Return what takes the place of the index of meaning, while the model changes."""
    if not reply.HasField("coming_vector"):
        return {}
    return {"coming_vector": _index(reply.coming_vector), "coming_embedder": _embedder(reply.coming_embedder)}
