"""Tests for `scripts/soak` with a short run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proofs.soak.main import main
from proofs.soak.sample import Sample
from proofs.soak.verdict import build_curves


def samples(*values: float) -> list[Sample]:
    return [Sample(float(minute), {"memory, MB": value}) for minute, value in enumerate(values)]


def test_only_curves_that_keep_growing_are_not_flat() -> None:
    (settled,) = build_curves(samples(100, 180, 250, 300, *[300, 302, 299, 301] * 3))
    assert settled.is_flat
    (growing,) = build_curves(samples(*range(300, 600, 20)))
    assert not growing.is_flat
    assert growing.growth == pytest.approx(180)


def test_too_few_samples_are_not_conclusive() -> None:
    (curve,) = build_curves(samples(100, 100, 100))
    assert curve.growth is None
    assert not curve.is_flat


@pytest.mark.proof
@pytest.mark.timeout(180)
def test_short_soak_run_samples_all_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "soak.json"
    code = main(["--minutes", "0.05", "--warm-up", "50", "--calibrate", "0.3", "--every", "0.5", "--json", str(out)])
    assert code in (0, 1)
    printed, result = capsys.readouterr().out, json.loads(out.read_text())
    assert "| memory, MB |" in printed
    assert result["capacity"] > result["rate"] > 0
    assert result["errors"] == {}
    for name in ("memory, MB", "descriptors", "threads", "lexical segments", "files", "data, MB"):
        assert result["samples"][0]["figures"][name] > 0
