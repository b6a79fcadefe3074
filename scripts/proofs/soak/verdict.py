"""Whether a curve is flat: by its slope, after the time that a server needs to warm up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofs.soak.sample import Sample

WARM_UP = 1 / 3
"""Share of the time in which caches fill and pools grow, which is left out."""
_LEAST_SAMPLES = 6

TOLERANCES = {
    "memory, MB": (0.05, 20.0),
    "descriptors": (0.05, 5.0),
    "threads": (0.05, 5.0),
    "segments of words": (0.25, 8.0),
    "files": (0.25, 30.0),
    "data, MB": (0.25, 50.0),
    "CPU per call, ms": (0.25, 1.0),
}
"""How much a figure may grow over the time that counts: a share of its mean, or so much, whichever is more."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What became of one figure. `growth` is the slope times the time that counts; None: too few samples."""

    name: str
    first: float
    last: float
    mean: float
    growth: float | None
    tolerance: float

    @property
    def is_flat(self) -> bool:
        """Whether it grows by no more than is tolerated."""
        return self.growth is not None and self.growth <= self.tolerance


def curves(samples: Sequence[Sample]) -> list[Curve]:
    """Judge all figures that have a tolerance."""
    counted = samples[int(len(samples) * WARM_UP) :]
    return [
        _curve(name, counted, share, least)
        for name, (share, least) in TOLERANCES.items()
        if all(name in item.figures for item in counted) and counted
    ]


def _curve(name: str, samples: Sequence[Sample], share: float, least: float) -> Curve:
    minutes = np.array([sample.minute for sample in samples])
    values = np.array([sample.figures[name] for sample in samples])
    growth = None
    if len(samples) >= _LEAST_SAMPLES:
        slope = float(np.polyfit(minutes - minutes.mean(), values, 1)[0])
        growth = slope * float(minutes[-1] - minutes[0])
    mean = float(values.mean())
    return Curve(name, float(values[0]), float(values[-1]), mean, growth, max(share * mean, least))
