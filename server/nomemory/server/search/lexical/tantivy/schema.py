"""The schema of the lexical index, its directory, and its checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tantivy

from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError, translate_panics
from nomemory.server.store.position import Checkpoint, LogIdentity, LogPosition

_NAME = "lexical-v"
_VERSION = 4

DIRECTORY = f"{_NAME}{_VERSION}"
"""The name of the index directory in the data directory. Increment the version when the schema or the text analysis
changes; the index is then rebuilt from the message log."""

CHECKPOINT = "checkpoint"
"""The `kind` of the document with the applied sequence number. The document has no user, so searches do not find it."""

_MAX_DELETE_ATTEMPTS = 9
"""Maximum number of attempts to delete an index."""

_LOG_KIND = "log"
"""Additional `kind` of the checkpoint document if it contains the name of the log."""

MESSAGE_CLASS = "class"
"""The field of the message class."""

METADATA = "metadata"
"""The field of the metadata hashes, with a term for each entry."""

_SPACED = "spaced"


def build_schema() -> tantivy.Schema:
    """Return the schema of a document. A document represents a message version, without the content.

    The field `seq` contains the sequence number of the version, and `speaker` the terms of the author's name. Only the
    checkpoint document has the fields `kind` and `applied`.
    """
    fields = tantivy.SchemaBuilder()
    fields.add_text_field("kind", tokenizer_name="raw", index_option="basic")
    fields.add_text_field("user", tokenizer_name="raw", index_option="basic")
    fields.add_text_field("conversation", tokenizer_name="raw", index_option="basic")
    fields.add_text_field(METADATA, tokenizer_name="raw", index_option="basic")
    fields.add_text_field("chars", tokenizer_name=_SPACED, index_option="position")
    fields.add_text_field("terms", tokenizer_name=_SPACED, index_option="basic")
    fields.add_text_field("speaker", tokenizer_name=_SPACED, index_option="basic")
    fields.add_integer_field(MESSAGE_CLASS, fast=True)
    fields.add_integer_field("role", indexed=True)
    fields.add_integer_field("ts", indexed=True, fast=True)
    fields.add_integer_field("seq", indexed=True, fast=True)
    fields.add_integer_field("applied", fast=True)
    return fields.build()


def open_index(directory: Path) -> tantivy.Index:
    """Open the index, or create an empty one.

    The snapshot of the opened index changes only when `reload()` is called.

    Raises:
        IndexUnusableError: the index cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _translate_read_errors():
        index = tantivy.Index(build_schema(), path=str(directory))
        # Tokenizers are not stored on disk.
        index.register_tokenizer(_SPACED, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
        index.config_reader("manual")
        read_checkpoint(index)
    return index


def reload_index(index: tantivy.Index) -> None:
    """Update the snapshot of the index to the latest commit.

    Raises:
        IndexUnusableError: the commit cannot be read. After this error, the index keeps its previous snapshot.
    """
    with _translate_read_errors():
        index.reload()


def open_or_recreate_index(directory: Path) -> tantivy.Index:
    """Open the index. Replace an unreadable index with an empty one."""
    try:
        return open_index(directory)
    except IndexUnusableError:
        discard_index(directory)
        return open_index(directory)


def discard_index(directory: Path) -> None:
    """Delete the index. Open readers keep their snapshot until they refresh.

    Raises:
        OSError: the directory cannot be deleted.
    """
    for _ in range(_MAX_DELETE_ATTEMPTS):  # a reader may briefly create a lock file meanwhile
        with suppress(OSError):
            shutil.rmtree(directory)
        if not directory.exists():
            return
    shutil.rmtree(directory)


def has_previous_version(directory: Path) -> bool:
    """Return whether there is an index of a previous schema version, but no index of the current version."""
    return not directory.exists() and any(previous.exists() for previous in _list_previous_versions(directory))


def discard_previous_versions(directory: Path) -> None:
    """Delete the indexes of previous schema versions."""
    for previous in _list_previous_versions(directory):
        shutil.rmtree(previous, ignore_errors=True)


def _list_previous_versions(directory: Path) -> list[Path]:
    if directory.name != DIRECTORY:
        return []
    return [directory.with_name(f"{_NAME}{version}") for version in range(1, _VERSION)]


def read_checkpoint(index: tantivy.Index) -> int:
    """Return the applied sequence number of the current snapshot; 0 if the snapshot has no checkpoint."""
    searcher = index.searcher()
    checkpoint_query = tantivy.Query.term_query(index.schema, "kind", CHECKPOINT)
    addresses = [address for _, address in searcher.search(checkpoint_query, limit=1).hits]
    applied = searcher.fast_field_values("applied", addresses)
    return int(applied[0] or 0) if applied else 0


def build_checkpoint_document(schema: tantivy.Schema, applied: int, log_name: str) -> tantivy.Document:
    """Return a checkpoint document with the applied sequence number and the message log's name, which may be empty."""
    kinds = [CHECKPOINT, *([_LOG_KIND, _build_log_kind(log_name)] if log_name else [])]
    return tantivy.Document.from_dict({"kind": kinds, "applied": applied}, schema)


def read_lexical_checkpoint(directory: Path, log: LogIdentity | None) -> Checkpoint | None:
    """Return the checkpoint of the index; None if there is no readable index.

    Reading a checkpoint creates no files. The name of the message log is indexed but not stored. If the index belongs
    to another message log than `log`, the checkpoint contains a placeholder for the name.
    """
    if not (directory / "meta.json").exists():
        return None
    try:
        index = open_index(directory)
    except IndexUnusableError:
        return None
    if not _has_kind(index, _LOG_KIND):
        return Checkpoint("", read_checkpoint(index))
    is_same_log = log is not None and _has_kind(index, _build_log_kind(log.name))
    return Checkpoint(log.name if log and is_same_log else _OTHER_LOG, read_checkpoint(index))


def discard_foreign_index(directory: Path, log: LogPosition) -> bool:
    """Delete an index that cannot follow this message log; return whether it was deleted."""
    checkpoint = read_lexical_checkpoint(directory, log.identity)
    if checkpoint is None or checkpoint.can_resume(log):
        return False
    discard_index(directory)
    return True


_OTHER_LOG = "another"


def _build_log_kind(log_name: str) -> str:
    return f"{_LOG_KIND} {log_name}"


def _has_kind(index: tantivy.Index, kind: str) -> bool:
    query = tantivy.Query.term_query(index.schema, "kind", kind)
    return bool(index.searcher().search(query, limit=1).hits)


@contextmanager
def _translate_read_errors() -> Iterator[None]:
    """Convert errors and panics that damaged files cause in the engine to IndexUnusableError."""
    try:
        with translate_panics():
            yield
    except (ValueError, EnginePanicError) as error:
        raise IndexUnusableError from error
