"""Result tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from evaluation.summary import Figures
from nomemory.cli.terminal import to_single_line

_RANKING: Final = (
    *("hit@1", "hit@6", "recall@6", "recall@10", "recall@20", "recall@50", "full@6", "mrr", "ndcg@10"),
    *("session_recall@5", "session_recall@10"),
    *("precision", "evidence_messages"),
)
_COSTS: Final = ("latency_p50_ms", "cpu_p50_ms")
_VERDICTS: Final = ("sufficiency_auc", "answered", "refused", "off_topic_refused", "balanced_accuracy")
_VIEWS: Final = (
    *("right", "right_answerable", "view_full", "view_recall", "view_precision", "current_first"),
    *("contradictions", "contradictions_found", "contradictions_false"),
)
_BY_CATEGORY: Final = (
    *("hit@1", "hit@6", "recall@6", "recall@10", "mrr", "answered", "refused"),
    *("right", "view_full", "view_recall", "view_precision"),
)
_SKILL_METRICS: Final = (
    *("evidence_recall", "precision", "hit@1", "answered", "refused"),
    "latency_p50_ms",
)
_MODEL: Final = (
    *("calls", "prompt_tokens_p50", "prompt_tokens_p95", "prompt_chars_p50", "prompt_chars_p95"),
    *("by_rules", "waiting"),
)
_COUNTS: Final = frozenset({"contradictions", "contradictions_found", *_MODEL[1:]})
_WITH_INTERVAL: Final = frozenset({"recall@6", "sufficiency_auc", "balanced_accuracy"})
_SHORT: Final = {
    "evidence_messages": "messages",
    "evidence_recall": "recall",
    "latency_p50_ms": "ms",
    "cpu_p50_ms": "CPU ms",
    "sufficiency_auc": "AUC",
    "precision": "prec.",
    "right_answerable": "of answerable",
    "session_recall@5": "session@5",
    "session_recall@10": "session@10",
    "answered": "answ.",
    "off_topic_refused": "off topic",
    "contradictions_found": "found",
    "contradictions_false": "false",
    "balanced_accuracy": "balanced",
    "prompt_tokens_p50": "tokens p50",
    "prompt_tokens_p95": "tokens p95",
    "prompt_chars_p50": "chars p50",
    "prompt_chars_p95": "chars p95",
}


def build_tables(name: str, by_method: Mapping[str, Mapping[str, Any]]) -> Iterator[Text | Table]:
    """Yield the tables of one set with titles: rankings, verdicts, memory views, prompts, categories and languages."""
    total = {method: result["all"] for method, result in by_method.items()}
    rows = [((method,), figures) for method, figures in total.items()]
    first = next(iter(total.values()))
    yield _build_title(f"{name}: {first['questions']:,} questions, {first['answerable']:,} answerable")
    yield _build_table(("method",), rows, (*_RANKING, *_COSTS))
    judged = [row for row in rows if any(metric in row[1] for metric in _VERDICTS)]
    if judged:
        yield _build_title(f"{name}: answerability")
        yield _build_table(("method",), judged, _VERDICTS)
    composed = [row for row in rows if any(metric in row[1] for metric in _VIEWS)]
    if composed:
        yield _build_title(f"{name}: memory view")
        yield _build_table(("method",), composed, _VIEWS)
    modelled = [row for row in rows if "waiting" in row[1]]
    if modelled:
        yield _build_title(f"{name}: prompts")
        yield _build_table(("method",), modelled, _MODEL)
    yield _build_title(f"{name}, by category")
    yield _build_table(("category", "method", "n"), list(_iterate_groups(by_method, "categories")), _BY_CATEGORY)
    languages = list(_iterate_groups(by_method, "languages"))
    if languages:
        yield _build_title(f"{name}, by language")
        yield _build_table(("language", "method", "n"), languages, _BY_CATEGORY)


def build_leave_one_out_table(figures: Mapping[str, Any]) -> Table:
    """Return the table of `--leave-one-out`."""
    name = f"{figures['people']} users, leave-one-out"
    return _build_table(("memory view",), [((name,), dict(figures))], (*_VIEWS, "answered", "off_topic_refused"))


def build_skill_table(by_skill: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the table of several skills by category."""
    rows = [(("all", skill, f"{result['all']['questions']:,}"), result["all"]) for skill, result in by_skill.items()]
    return _build_table(("category", "skill", "n"), [*rows, *_iterate_groups(by_skill, "categories")], _SKILL_METRICS)


def _iterate_groups(by_method: Mapping[str, Mapping[str, Any]], kind: str) -> Iterator[tuple[tuple[str, ...], Figures]]:
    """Yield the row keys and figures of `categories` or `languages` for each group and method."""
    for group in sorted({name for result in by_method.values() for name in result.get(kind, {})}):
        for method, result in by_method.items():
            figures = result[kind][group]
            yield (group, method, f"{figures['questions']:,}"), figures


def _build_title(text: str) -> Text:
    return Text(f"\n{to_single_line(text)}", style="bold")


def _build_table(keys: Sequence[str], rows: Sequence[tuple[tuple[str, ...], Figures]], metrics: Sequence[str]) -> Table:
    """Return a table; omit columns without figures and repeated values of the first column."""
    shown = [metric for metric in metrics if any(metric in figures for _, figures in rows)]
    table = Table(box=None, pad_edge=False)
    for key in keys:
        table.add_column(key, overflow="fold")
    for metric in shown:
        table.add_column(_SHORT.get(metric, metric), justify="right", no_wrap=True)
    above = ""
    for (first, *others), figures in rows:
        table.add_row(
            *map(to_single_line, ("" if first == above else first, *others)), *(format_cell(figures, m) for m in shown)
        )
        above = first
    return table


def format_cell(figures: Figures, metric: str) -> Text:
    """Format a figure; omit the leading zero of shares and add the confidence interval to selected metrics."""
    if metric not in figures:
        return Text("")
    if metric.endswith("_ms") or metric == "evidence_messages":
        return Text(f"{figures[metric]:.1f}")
    if metric in _COUNTS:
        return Text(f"{figures[metric]:,.0f}")
    if metric == "calls":
        return Text(f"{figures[metric]:.2f}")
    text = Text(format_share(figures[metric]))
    if metric in _WITH_INTERVAL and metric in figures["ci"]:
        low, high = figures["ci"][metric]
        text.append(f" {format_share(low)}–{format_share(high)}", style="dim")
    return text


def format_share(value: float) -> str:
    """Format a number from 0 to 1 with three digits and no leading zero: `.741`."""
    return f"{value:.3f}".removeprefix("0")
