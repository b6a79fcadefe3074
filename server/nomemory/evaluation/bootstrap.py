"""Confidence intervals by bootstrap: how much a figure hangs on which questions happened to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

SAMPLES: Final = 1_000
_SEED: Final = 20_240_229
_PERCENTILES: Final = (2.5, 97.5)

Numbers = npt.NDArray[np.float64]
Interval = tuple[float, float]


@lru_cache(maxsize=8)
def weights(count: int, stream: int = 0) -> Numbers:
    """Draw `count` questions with replacement, many times: a row for each draw, with the share of each question.

    The same draws every time, so that methods are compared on the same ones; another `stream` draws independently.
    """
    random = np.random.default_rng((_SEED, stream))
    drawn = random.multinomial(count, np.full(count, 1 / count), size=SAMPLES)
    return drawn.astype(np.float64) / count


def interval(samples: Numbers) -> Interval:
    """Return the 95 % interval of a figure over all draws (percentile method, Efron 1979)."""
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the 95 % interval of a mean. `values` is not empty."""
    return interval(weights(len(values)) @ np.asarray(values, dtype=np.float64))
