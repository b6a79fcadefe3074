"""What the lexical index holds on disk, how its directory is opened, and what becomes of the engine's panics."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tantivy

from nomemory.server.search.lexical.protocol import IndexUnusableError
from nomemory.server.search.lexical.tantivy.panics import EnginePanicError, ordinary_panics
from nomemory.server.store.position import Checkpoint, LogIdentity, LogPosition

_NAME = "lexical-v"
_VERSION = 4

DIRECTORY = f"{_NAME}{_VERSION}"
"""The directory's name, within the server's data. A change of the fields or of the analysis needs a new one: the
index is then built anew from the log."""

CHECKPOINT = "checkpoint"
"""The `kind` of the one document that holds the applied sequence. It has no user, so that no search finds it."""

_DELETIONS_MAX = 9
"""Number of attempts to delete an index."""

_NAMED = "log"
"""A further `kind` of that document, if it names the log."""

MESSAGE_CLASS = "class"
"""The field that holds a message's class."""

METADATA = "metadata"
"""The field that holds the marks of a message's metadata, a term for each entry."""

_SPACED = "spaced"


def build_schema() -> tantivy.Schema:
    """Describe a document: one version of a message, without its content.

    `seq` is the version's sequence, by which it is deleted. `speaker` holds the terms of the sender's name. Only the
    checkpoint document has `kind` and `applied`.
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
    """Open the index, or create an empty one where there is none. Its view moves on `reload()` only.

    Raises:
        IndexUnusableError: something is there that cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _readable():
        index = tantivy.Index(build_schema(), path=str(directory))
        # Tokenizers are not kept on disk.
        index.register_tokenizer(_SPACED, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
        index.config_reader("manual")
        read_checkpoint(index)
    return index


def reload_index(index: tantivy.Index) -> None:
    """Move the index's view on to the latest commit.

    Raises:
        IndexUnusableError: it cannot be read; the view stays as it was.
    """
    with _readable():
        index.reload()


def open_or_rebuild(directory: Path) -> tantivy.Index:
    """Open the index; one that cannot be read gives way to an empty one."""
    try:
        return open_index(directory)
    except IndexUnusableError:
        discard_index(directory)
        return open_index(directory)


def discard_index(directory: Path) -> None:
    """Delete the index. Readers that have it open keep their view until they refresh.

    Raises:
        OSError: it cannot be deleted.
    """
    for _ in range(_DELETIONS_MAX):  # the engine of a reader that sees it vanish puts a lock there, for a moment
        with suppress(OSError):
            shutil.rmtree(directory)
        if not directory.exists():
            return
    shutil.rmtree(directory)


def has_former(directory: Path) -> bool:
    """Return whether the index of a former version lies beside this one, which nobody has written yet."""
    return not directory.exists() and any(former.exists() for former in _former(directory))


def discard_former(directory: Path) -> None:
    """Delete the indexes of former versions, which nothing reads any more, from beside the index of this one."""
    for former in _former(directory):
        shutil.rmtree(former, ignore_errors=True)


def _former(directory: Path) -> list[Path]:
    if directory.name != DIRECTORY:
        return []
    return [directory.with_name(f"{_NAME}{version}") for version in range(1, _VERSION)]


def read_checkpoint(index: tantivy.Index) -> int:
    """Return the applied sequence of the index's current view (0 if nothing was applied)."""
    searcher = index.searcher()
    of_checkpoint = tantivy.Query.term_query(index.schema, "kind", CHECKPOINT)
    addresses = [address for _, address in searcher.search(of_checkpoint, limit=1).hits]
    applied = searcher.fast_field_values("applied", addresses)
    return int(applied[0] or 0) if applied else 0


def checkpoint_document(schema: tantivy.Schema, applied: int, log: str) -> tantivy.Document:
    """Return the document that says how far the index is, and with which log (`LogIdentity.name`, or nothing)."""
    kinds = [CHECKPOINT, *([_NAMED, _name_term(log)] if log else [])]
    return tantivy.Document.from_dict({"kind": kinds, "applied": applied}, schema)


def lexical_checkpoint(directory: Path, log: LogIdentity | None) -> Checkpoint | None:
    """Return how far the index is; None if there is none that can be read. Nothing is created.

    The index tells only whether it is of a given log, not of which other one.
    """
    if not (directory / "meta.json").exists():
        return None
    try:
        index = open_index(directory)
    except IndexUnusableError:
        return None
    if not _has_kind(index, _NAMED):
        return Checkpoint("", read_checkpoint(index))
    is_of_it = log is not None and _has_kind(index, _name_term(log.name))
    return Checkpoint(log.name if log and is_of_it else _ANOTHER, read_checkpoint(index))


def discard_foreign_words(directory: Path, log: LogPosition) -> bool:
    """Delete an index that cannot go on with this log; return whether it was so."""
    known = lexical_checkpoint(directory, log.identity)
    if known is None or known.can_resume(log):
        return False
    discard_index(directory)
    return True


_ANOTHER = "another"


def _name_term(log: str) -> str:
    return f"{_NAMED} {log}"


def _has_kind(index: tantivy.Index, kind: str) -> bool:
    query = tantivy.Query.term_query(index.schema, "kind", kind)
    return bool(index.searcher().search(query, limit=1).hits)


@contextmanager
def _readable() -> Iterator[None]:
    """Raise IndexUnusableError for whatever the engine makes of damaged files, an error or a panic."""
    try:
        with ordinary_panics():
            yield
    except (ValueError, EnginePanicError) as error:
        raise IndexUnusableError from error
