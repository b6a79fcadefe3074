"""Growth of sampled figures, by linear regression after the warm-up phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofs.soak.sample import Sample

WARM_UP = 1 / 3
"""Share of the run that is ignored, because caches and pools still grow."""
_MIN_SAMPLES = 6

TOLERANCES = {
    "memory, MB": (0.05, 20.0),
    "descriptors": (0.05, 5.0),
    "threads": (0.05, 5.0),
    "lexical segments": (0.25, 8.0),
    "files": (0.25, 30.0),
    "data, MB": (0.25, 50.0),
    "CPU per call, ms": (0.25, 1.0),
}
"""Tolerated growth: a share of the mean, or an absolute value, whichever is larger."""


@dataclass(frozen=True, slots=True)
class GrowthCurve:
    """The growth of a sampled figure.

    Attributes:
        first: first value after the warm-up.
        growth: slope multiplied by the measured time; None if there are too few samples.
        tolerance: maximum growth of a flat curve.
    """

    name: str
    first: float
    last: float
    mean: float
    growth: float | None
    tolerance: float

    @property
    def is_flat(self) -> bool:
        """Whether the growth is within the tolerance."""
        return self.growth is not None and self.growth <= self.tolerance


def build_curves(samples: Sequence[Sample]) -> list[GrowthCurve]:
    """Return the growth of all figures that have a tolerance."""
    measured = samples[int(len(samples) * WARM_UP) :]
    return [
        _build_curve(name, measured, share, minimum)
        for name, (share, minimum) in TOLERANCES.items()
        if all(name in item.figures for item in measured) and measured
    ]


def _build_curve(name: str, samples: Sequence[Sample], share: float, minimum: float) -> GrowthCurve:
    minutes = np.array([sample.minute for sample in samples])
    values = np.array([sample.figures[name] for sample in samples])
    growth = None
    if len(samples) >= _MIN_SAMPLES:
        slope = float(np.polyfit(minutes - minutes.mean(), values, 1)[0])
        growth = slope * float(minutes[-1] - minutes[0])
    mean = float(values.mean())
    return GrowthCurve(name, float(values[0]), float(values[-1]), mean, growth, max(share * mean, minimum))
