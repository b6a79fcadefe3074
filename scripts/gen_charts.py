"""Draws the pictures of docs/charts from the figures beside them. With --check it only tells whether they fit.

The figures are those of the benchmarks, which write them there with --charts; the pages' tables have the same ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated_page import keep
from load import performance_chart
from usage import show_help

from evaluation import charts

FOLDER = Path(__file__).parent.parent / "docs" / "charts"


def main() -> int:
    """Write the pictures, or compare them. Return the exit code."""
    quality, performance = (
        json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in (charts.FIGURES, performance_chart.FIGURES)
    )
    drawn = {charts.PICTURE: charts.picture(quality), **performance_chart.pictures(performance)}
    return max([keep(FOLDER / name, picture) for name, picture in drawn.items()])


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
