"""Opens the lexical index over a server's data directory."""

from __future__ import annotations

from pathlib import Path

from nomemory.server.lexical.protocol import IndexUnusableError, LexicalIndex
from nomemory.server.lexical.tantivy.reader import TantivyLexicalIndex
from nomemory.server.lexical.tantivy.schema import discard_index, has_former
from nomemory.server.structured_logs import get_logger

_log = get_logger("server")


def open_lexical_index(directory: Path) -> LexicalIndex:
    """Open the index for reading.

    Raises:
        IndexUnusableError: something is there that cannot be read.
    """
    return TantivyLexicalIndex(directory)


def open_or_discard_lexical_index(directory: Path) -> LexicalIndex:
    """Open the index for reading; one that cannot be read gives way to an empty one, which the indexer fills.

    So does one of a former version.
    """
    if has_former(directory):
        _log.info("the lexical index is of a former version and is built anew", directory=str(directory))
    try:
        return TantivyLexicalIndex(directory)
    except IndexUnusableError:
        _log.warning("the lexical index cannot be read and is built anew", directory=str(directory))
        discard_index(directory)
        return TantivyLexicalIndex(directory)
