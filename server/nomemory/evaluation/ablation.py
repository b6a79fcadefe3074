"""What each step of the hybrid ranking is worth: the same questions again, each time with one step left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from nomemory.evaluation.methods import HYBRID
from nomemory.server.hybrid.weights import STEPS

SETTING: Final = "NOMEMORY_HYBRID_WITHOUT"
WHOLE: Final = "everything"
_SHOWN: Final = ("recall@6", "recall@10", "hit@1", "hit@6")

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Figures by set, method, and category or `all`."""
Measure = Callable[[Mapping[str, str]], Results]
"""Measures with further settings of the server."""


def ablation(measure: Measure) -> dict[str, dict[str, Mapping[str, float]]]:
    """Measure HybridSearch as it is, then without each of its steps; returns figures by set and step left out."""
    by_step = {WHOLE: measure({SETTING: ""})} | {step: measure({SETTING: step}) for step in STEPS}
    return {name: {step: results[name][HYBRID]["all"] for step, results in by_step.items()} for name in by_step[WHOLE]}


def ablation_tables(by_set: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[Text | Table]:
    """Lay it out: a table for each set, the difference that a step makes in brackets."""
    for name, by_step in by_set.items():
        table = Table("left out", *_SHOWN, box=None)
        for step, figures in by_step.items():
            table.add_row(step if step != WHOLE else "nothing", *_cells(figures, by_step[WHOLE]))
        yield Text(f"\n{name}: HybridSearch without a step", style="bold")
        yield table


def _cells(figures: Mapping[str, float], whole: Mapping[str, float]) -> Iterator[str]:
    for metric in _SHOWN:
        yield f"{figures[metric]:.3f} ({figures[metric] - whole[metric]:+.3f})"
