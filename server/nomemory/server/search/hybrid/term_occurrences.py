"""Occurrences of terms in the candidate messages, from index postings or from the messages themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nomemory.server.search.hybrid.candidate_messages import Ints, Timeline
from nomemory.server.search.lexical.protocol import Posting


@dataclass(frozen=True, slots=True)
class TermOccurrences:
    """The number of the user's messages with a term, and the indexes of the candidate messages with this term."""

    document_frequency: int
    indexes: Ints


def convert_postings(timeline: Timeline, postings: Mapping[str, Posting]) -> Mapping[str, TermOccurrences]:
    """Convert the sequence numbers of postings to indexes of candidate messages."""
    if not postings:
        return {}
    sequences = [posting.sequences for posting in postings.values()]
    indexes, is_present = timeline.locate_versions(np.concatenate(sequences))
    bounds = np.cumsum([0, *map(len, sequences)])
    ends = np.concatenate([[0], np.cumsum(is_present)])[bounds].tolist()
    indexes = indexes[is_present]
    return {
        term: TermOccurrences(posting.count, indexes[start:end])
        for (term, posting), start, end in zip(postings.items(), ends[:-1], ends[1:], strict=True)
    }


def find_term_occurrences(timeline: Timeline, terms: Sequence[str]) -> Mapping[str, TermOccurrences]:
    """Search the candidate messages for terms. The candidates must be all messages of the user."""
    query_terms = frozenset(terms)
    indexes: dict[str, list[int]] = {term: [] for term in terms}
    for index, matching in enumerate(map(query_terms.intersection, timeline.terms)):
        for term in matching:
            indexes[term].append(index)
    return {term: TermOccurrences(len(some), np.array(some, dtype=np.int64)) for term, some in indexes.items()}
