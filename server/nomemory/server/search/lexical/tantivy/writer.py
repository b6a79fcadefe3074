"""Write the lexical index in Tantivy: add, remove and commit message versions."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Self

import tantivy

from nomemory.server.message import Message
from nomemory.server.metadata_hashes import compute_entry_hashes
from nomemory.server.search.lexical.message_class import classify_message
from nomemory.server.search.lexical.tantivy.schema import (
    CHECKPOINT,
    MESSAGE_CLASS,
    METADATA,
    build_checkpoint_document,
    discard_previous_versions,
    open_index,
    open_or_recreate_index,
    read_checkpoint,
)
from nomemory.text.analysis import analyze_text
from nomemory.text.names import extract_name_terms


class TantivyLexicalWriter:
    """Applies changes to the index, and commits the changes together with a checkpoint.

    Use a writer from one thread only, and open at most one writer per directory.

    An unreadable index is replaced with an empty index, whose `applied_sequence` is 0. Indexes of previous schema
    versions are deleted.

    Args:
        directory: the directory of the index; created if it does not exist.
        heap_bytes: the memory limit for uncommitted changes, at least 15 MB.
        log_name: the name of the message log (`LogIdentity.name`).

    Raises:
        ValueError: another writer has opened the directory.
    """

    def __init__(self, directory: Path, heap_bytes: int, log_name: str = "") -> None:
        discard_previous_versions(directory)
        index = open_or_recreate_index(directory)
        self._directory = directory
        self._log_name = log_name
        self._applied = read_checkpoint(index)
        self._schema = index.schema
        self._writer = index.writer(heap_bytes, num_threads=1)

    @property
    def applied_sequence(self) -> int:
        """The sequence number up to which all changes are committed."""
        return self._applied

    def add_version(self, sequence: int, message: Message) -> None:
        """Add a version of a message."""
        tokens, terms = analyze_text(message.content)
        fields = {
            "user": message.user_id,
            "conversation": message.conversation_id,
            METADATA: list(compute_entry_hashes(message.metadata.items())),
            "chars": " ".join(tokens),
            "terms": " ".join(terms),
            "speaker": _build_speaker_terms(message.name),
            MESSAGE_CLASS: classify_message(message.content, len(terms)),
            "role": int(message.role),
            "ts": message.ts_us,
            "seq": sequence,
        }
        self._writer.add_document(tantivy.Document.from_dict(fields, self._schema))

    def remove_version(self, sequence: int) -> None:
        """Remove a version of a message, if it exists."""
        self._writer.delete_documents_by_term("seq", sequence)

    def commit(self, applied: int) -> None:
        """Commit all changes since the last commit, and a checkpoint with the applied sequence number.

        Raises:
            IndexUnusableError: the previous commit cannot be read. The next writer rebuilds the index.
        """
        open_index(self._directory)  # a commit onto damaged files would abort the process
        self._writer.delete_documents_by_term("kind", CHECKPOINT)
        self._writer.add_document(build_checkpoint_document(self._schema, applied, self._log_name))
        self._writer.commit()
        self._applied = applied

    def delete_unused_files(self) -> None:
        """Delete the files of the index that no commit uses."""
        self._writer.garbage_collect_files()

    def close(self) -> None:
        """Discard uncommitted changes, wait for merges, and release the directory."""
        try:
            self._writer.rollback()
        finally:
            self._writer.wait_merging_threads()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@lru_cache(maxsize=1024)
def _build_speaker_terms(name: str) -> str:
    """Return the terms of an author's name, separated by spaces."""
    return " ".join(extract_name_terms(name))
