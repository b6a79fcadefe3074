"""Draw the charts of docs/charts from the JSON figures in that folder. With --check, only report outdated charts.

The benchmarks write these figures if they are run with --charts. The tables of the documentation show the same figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated_page import write_or_check_page
from load import performance_chart
from usage import show_help

from evaluation import charts

FOLDER = Path(__file__).parent.parent / "docs" / "charts"


def main() -> int:
    """Write or check the charts; return the exit status."""
    quality, performance = (
        json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in (charts.FIGURES, performance_chart.FIGURES)
    )
    drawings = {charts.PICTURE: charts.render_chart(quality), **performance_chart.render_charts(performance)}
    return max([write_or_check_page(FOLDER / name, picture) for name, picture in drawings.items()])


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
