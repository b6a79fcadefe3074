"""Combine the vector of a query with the vector of the topic of the current conversation.

A turn such as "And what about the second one?" is about something that an earlier turn names. If the topic is similar
to the turn, the combined vector is closer to the messages that the turn needs. If the topic is not similar, the
conversation has probably moved on, and the topic is ignored.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nomemory.server.embedding.vector import NUMBER, Vector, normalize_vector

_WEIGHT: Final = 0.25
"""The weight of the topic; the query has the weight 1."""
_MIN_COSINE: Final = 0.65
"""A topic that is less similar to the query is ignored."""


def add_topic(query: Vector, topic: Vector) -> Vector:
    """Return the weighted sum of two unit vectors as a unit vector, or the query if the topic is not similar to it."""
    query_numbers, topic_numbers = (np.frombuffer(vector, dtype=NUMBER) for vector in (query, topic))
    if float(query_numbers @ topic_numbers) < _MIN_COSINE:
        return query
    combined = (query_numbers + _WEIGHT * topic_numbers).astype(NUMBER)
    return normalize_vector(combined.tobytes(), len(combined))
