"""`scripts/bench_recall`: retrieval quality on labeled questions."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from evaluation.asking import (
    HYBRID,
    NAMES,
    RECALL,
    Method,
    RecallMethod,
    RecordedRecallMethod,
    UnsupportedMethodError,
    ask_all,
    select_methods,
)
from evaluation.labeled_file import LabeledDataError, Question
from evaluation.labeled_set import (
    IndexingTimeoutError,
    LabeledSet,
    import_messages,
    make_off_topic_questions,
    wait_for_indexes,
)
from evaluation.options import (
    OutputPaths,
    QuestionSelection,
    add_destination_options,
    add_selection_options,
    parse_comma_separated,
)
from evaluation.recorded_endpoint import RecordedEndpoint, running_endpoint
from evaluation.summary import summarize_answers
from evaluation.table import build_leave_one_out_table, build_tables
from evaluation.temporary_server import ServerStartError, TemporaryServer, temporary_server
from evaluation.variants import RecallAnswers, build_ablation_tables, evaluate_leave_one_out, measure_ablation
from nomemory.cli.console import create_stderr_console, create_stdout_console
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.importing.progress import show_indexing_progress

_WIDTH: Final = 160
_WAITING: Final = 3
_CALL_MAX_S: Final = 600.0
_FAILURES: Final = (LabeledDataError, IndexingTimeoutError, ServerStartError)


def _parse_method_names(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    names = parse_comma_separated(context, parameter, text)
    if unknown := set(names) - set(NAMES):
        raise click.BadParameter(f"unknown method: {', '.join(sorted(unknown))}; valid: {', '.join(NAMES)}.")
    return names


@click.command("bench_recall", context_settings={"help_option_names": ["-h", "--help"]})
@add_selection_options
@add_destination_options
@click.option(
    "--methods",
    "names",
    callback=_parse_method_names,
    default=",".join(NAMES),
    show_default=True,
    help="Methods to measure, separated by commas.",
)
@click.option(
    "--leave-one-out",
    "loo",
    is_flag=True,
    help="Evaluate the memory views of each labeled user at thresholds chosen on the other users.",
)
@click.option("--ablate", is_flag=True, help="Also measure HybridSearch without each of its ranking features.")
@click.option(
    "--prompts",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Measure Recall with recorded model answers: each prompt is written to HASH.prompt.md, and the answer is read "
    "from HASH.answer.json.",
)
def bench_recall(
    *,
    selection: QuestionSelection,
    destination: OutputPaths,
    names: Sequence[str],
    loo: bool,
    ablate: bool,
    prompts: Path | None,
) -> None:
    """Measure how much labeled evidence each method returns from a new server.

    A set consists of NAME.messages.jsonl and NAME.questions.jsonl, in the format of sample/. Messages at or after the
    `now` of a question are ignored. Environment variables configure the server; recall uses the planner `rules`, or
    `llm` with --prompts.

    With --prompts, only Recall is measured. Questions whose prompt has no recorded answer are excluded from the
    figures; the command reports the number of unanswered prompts and exits with 3. Write the answers, then run the
    command again, because an answer can lead to another prompt.
    """
    if prompts and (loo or ablate):
        raise click.UsageError("--prompts cannot be combined with --leave-one-out or --ablate.")
    try:
        sets = selection.read_sets()
        waiting: Collection[str] = ()
        with tempfile.TemporaryDirectory(
            prefix="nomemory-"
        ) as data:  # shared by all servers, so that each text is embedded once
            if prompts:
                results, waiting = _measure_with_recorded_answers(sets, data, prompts)
            else:
                results = _measure_sets(sets, select_methods(names), data, {})
            left_out = evaluate_leave_one_out(partial(_recall_labeled_questions, sets, data)) if loo else {}
            steps = measure_ablation(partial(_measure_sets, sets, select_methods([HYBRID]), data)) if ablate else {}
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    except NoMemoryError as error:
        raise click.ClickException(f"a call to the evaluation server failed: {error}") from None
    _print_tables(
        [table for name, by_method in results.items() if by_method for table in build_tables(name, by_method)]
    )
    _print_tables(list(build_ablation_tables(steps)))
    _print_tables([build_leave_one_out_table(left_out)] if left_out else [])
    destination.write_results(results, {"ablation": steps, "leave_one_out": left_out})
    if waiting:
        create_stderr_console().print(
            f"{len(waiting):,} prompts in {prompts} have no answer; write HASH.answer.json for each and run again.",
            soft_wrap=True,
        )
        raise click.exceptions.Exit(_WAITING)


def _measure_with_recorded_answers(
    sets: Sequence[LabeledSet], data: str, folder: Path
) -> tuple[dict[str, dict[str, Any]], Collection[str]]:
    """Measure Recall with recorded answers; return the figures and the hashes of unanswered prompts."""
    if timeless := [question.question_id for item in sets for question in item.questions if question.now is None]:
        raise LabeledDataError(
            [f"{item}: `now` is missing; --prompts requires it, because prompts contain the time" for item in timeless]
        )
    folder.mkdir(parents=True, exist_ok=True)
    recorded = RecordedEndpoint(folder)
    with running_endpoint(recorded) as url:
        settings = {
            "NOMEMORY_RECALL_PLANNER": "llm",
            "NOMEMORY_RECALL_MODEL": "recorded",
            "NOMEMORY_RECALL_MODEL_TIMEOUT_S": str(_CALL_MAX_S),
            "NOMEMORY_RECALL_DEADLINE_S": str(_CALL_MAX_S),
            "OPENAI_BASE_URL": url,
        }
        figures = _measure_sets(sets, {RECALL: RecordedRecallMethod(recorded)}, data, settings)
    return figures, recorded.unanswered_prompts


def _measure_sets(
    sets: Sequence[LabeledSet], chosen: Mapping[str, Method], data: str, settings: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_build_server_settings(data), **settings}))
        client = stack.enter_context(Client(server.target, timeout=_CALL_MAX_S))
        _load_messages(client, sets)
        return {item.name: dict(_ask_set(server, client, item, chosen)) for item in sets}


def _recall_labeled_questions(sets: Sequence[LabeledSet], data: str, settings: Mapping[str, str]) -> RecallAnswers:
    """Run a recall for each question that has a labeled verdict, on a server with additional settings."""
    labeled = [
        replace(item, questions=tuple(question for question in item.questions if question.verdict)) for item in sets
    ]
    labeled = [item for item in labeled if item.questions]
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_build_server_settings(data), **settings}))
        client = stack.enter_context(Client(server.target))
        _load_messages(client, labeled)
        questions = [question for item in labeled for question in item.questions]
        recall = RecallMethod()
        answers = list(ask_all(client, recall, questions, server.measure_cpu_ms))
        return RecallAnswers(
            answers, list(ask_all(client, recall, make_off_topic_questions(questions), server.measure_cpu_ms))
        )


def _build_server_settings(data: str) -> dict[str, str]:
    return {
        "NOMEMORY_DATA": data,
        "NOMEMORY_RECALL_PLANNER": "rules",
        "NOMEMORY_AUDIT_LOG": "false",
    }


def _load_messages(client: Client, sets: Sequence[LabeledSet]) -> None:
    for item in sets:
        import_messages(client, item.path, item.messages)
    with show_indexing_progress(create_stderr_console()) as report_progress:
        wait_for_indexes(client, report_progress)


def _ask_set(
    server: TemporaryServer, client: Client, labeled_set: LabeledSet, chosen: Mapping[str, Method]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ask the questions of a set with each method; print a message for each method that the server does not support."""
    console = create_stderr_console()
    for name, method in chosen.items():
        try:
            answers = list(ask_all(client, method, _show_progress(labeled_set, name, console), server.measure_cpu_ms))
        except UnsupportedMethodError as error:
            console.print(f"skipped: {name} on {labeled_set.name}: {error}", style="yellow", soft_wrap=True)
            continue
        others = make_off_topic_questions(labeled_set.questions) if isinstance(method, RecallMethod) else []
        yield name, summarize_answers(answers, list(ask_all(client, method, others, server.measure_cpu_ms)))


def _show_progress(labeled_set: LabeledSet, name: str, console: Console) -> Iterator[Question]:
    label, hidden = f"{labeled_set.name}: {name}", not console.is_terminal
    yield from track(labeled_set.questions, label, console=console, transient=True, disable=hidden)


def _print_tables(items: Sequence[Text | Table]) -> None:
    console = create_stdout_console()
    console.width = max(console.width, _WIDTH) if not console.is_terminal else console.width
    for item in items:
        console.print(item)


def main() -> None:
    """Run the command. Exit statuses: 0 success, 1 failure, 2 invalid usage, 3 unanswered prompts."""
    sys.exit(bench_recall.main(prog_name="scripts/bench_recall"))


if __name__ == "__main__":
    main()
