"""`scripts/bench_recall`: whether the right messages come back, judged by labelled evidence."""

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
    MethodMissingError,
    Recall,
    RecordedRecall,
    ask_all,
    methods,
)
from evaluation.labelled_file import LabelledDataError, Question
from evaluation.labelled_set import IndexesBehindError, LabelledSet, load, off_topic, wait_for_indexes
from evaluation.options import Destination, Selection, destination_options, listed, selection_options
from evaluation.recorded_endpoint import RecordedEndpoint, serving
from evaluation.summary import summarise
from evaluation.table import left_out_table, tables
from evaluation.temporary_server import ServerStartError, TemporaryServer, temporary_server
from evaluation.variants import Asked, ablation, ablation_tables, leave_one_out
from nomemory.cli.console import stderr_console, stdout_console
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.importing.progress import indexing_progress

_WIDTH: Final = 160
_WAITING: Final = 3
_CALL_MAX_S: Final = 600.0
_FAILURES: Final = (LabelledDataError, IndexesBehindError, ServerStartError)


def _known(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    names = listed(context, parameter, text)
    if unknown := set(names) - set(NAMES):
        raise click.BadParameter(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}.")
    return names


@click.command("bench_recall", context_settings={"help_option_names": ["-h", "--help"]})
@selection_options
@destination_options
@click.option("--methods", "names", callback=_known, default=",".join(NAMES), show_default=True, help="What to ask.")
@click.option(
    "--leave-one-out",
    "loo",
    is_flag=True,
    help="Judge the memory views of each labelled person at operating points that the others chose.",
)
@click.option("--ablate", is_flag=True, help="Measure HybridSearch again without each step of its ranking.")
@click.option(
    "--prompts",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Recall with a model whose answers are recorded here. Every prompt is written to HASH.prompt.md; what "
    "stands in HASH.answer.json is the answer.",
)
def bench_recall(
    *,
    selection: Selection,
    destination: Destination,
    names: Sequence[str],
    loo: bool,
    ablate: bool,
    prompts: Path | None,
) -> None:
    """Load labelled sets into a fresh server, ask their questions, and report how much of the evidence comes back.

    A set is NAME.messages.jsonl with NAME.questions.jsonl beside it, in the form of sample/. What was said at or after
    a question's `now` is not looked at. Settings of the server can be given as environment variables; recall plans with
    `rules`, or with --prompts with `llm`.

    With --prompts nothing is asked but Recall. A question whose prompt has no answer yet is left out of the figures,
    and the command ends with 3 after it has said how many prompts wait. Write answers and run it again: an answer may
    lead to a further prompt.
    """
    if prompts and (loo or ablate):
        raise click.UsageError("--prompts goes with neither --leave-one-out nor --ablate.")
    try:
        chosen = selection.read()
        waiting: Collection[str] = ()
        with tempfile.TemporaryDirectory(prefix="nomemory-") as data:  # one for all servers: a text is embedded once
            if prompts:
                results, waiting = _with_recorded_answers(chosen, data, prompts)
            else:
                results = _measured(chosen, methods(names), data, {})
            left_out = leave_one_out(partial(_recalled, chosen, data)) if loo else {}
            steps = ablation(partial(_measured, chosen, methods([HYBRID]), data)) if ablate else {}
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    except NoMemoryError as error:
        raise click.ClickException(f"the server refused a call: {error}") from None
    _show([part for name, by_method in results.items() if by_method for part in tables(name, by_method)])
    _show(list(ablation_tables(steps)))
    _show([left_out_table(left_out)] if left_out else [])
    destination.write(results, {"ablation": steps, "leave_one_out": left_out})
    if waiting:
        stderr_console().print(f"{len(waiting):,} prompts wait for answers in {prompts}.", soft_wrap=True)
        raise click.exceptions.Exit(_WAITING)


def _with_recorded_answers(
    sets: Sequence[LabelledSet], data: str, folder: Path
) -> tuple[dict[str, dict[str, Any]], Collection[str]]:
    """Recall with recorded answers; returns the figures, and the prompts that wait for an answer."""
    if timeless := [asked.question_id for item in sets for asked in item.questions if asked.now is None]:
        raise LabelledDataError([f"{item}: has no `now`, so its prompts would never be the same" for item in timeless])
    folder.mkdir(parents=True, exist_ok=True)
    recorded = RecordedEndpoint(folder)
    with serving(recorded) as url:
        settings = {
            "NOMEMORY_RECALL_PLANNER": "llm",
            "NOMEMORY_RECALL_MODEL": "recorded",
            "NOMEMORY_RECALL_MODEL_TIMEOUT_S": str(_CALL_MAX_S),
            "NOMEMORY_RECALL_DEADLINE_S": str(_CALL_MAX_S),
            "OPENAI_BASE_URL": url,
        }
        found = _measured(sets, {RECALL: RecordedRecall(recorded)}, data, settings)
    return found, recorded.waiting


def _measured(
    sets: Sequence[LabelledSet], chosen: Mapping[str, Method], data: str, further: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_settings(data), **further}))
        client = stack.enter_context(Client(server.target, timeout=_CALL_MAX_S))
        _load(client, sets)
        return {item.name: dict(_asked(server, client, item, chosen)) for item in sets}


def _recalled(sets: Sequence[LabelledSet], data: str, further: Mapping[str, str]) -> Asked:
    """Let a server with further settings recall the labelled questions."""
    labelled = [replace(item, questions=tuple(asked for asked in item.questions if asked.verdict)) for item in sets]
    labelled = [item for item in labelled if item.questions]
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_settings(data), **further}))
        client = stack.enter_context(Client(server.target))
        _load(client, labelled)
        questions = [question for item in labelled for question in item.questions]
        recall = Recall()
        answers = list(ask_all(client, recall, questions, server.cpu_ms))
        return Asked(answers, list(ask_all(client, recall, off_topic(questions), server.cpu_ms)))


def _settings(data: str) -> dict[str, str]:
    return {
        "NOMEMORY_DATA": data,
        "NOMEMORY_RECALL_PLANNER": "rules",
        "NOMEMORY_AUDIT_LOG": "false",
    }


def _load(client: Client, sets: Sequence[LabelledSet]) -> None:
    for item in sets:
        load(client, item.path, item.messages)
    with indexing_progress(stderr_console()) as tell:
        wait_for_indexes(client, tell)


def _asked(
    server: TemporaryServer, client: Client, one: LabelledSet, chosen: Mapping[str, Method]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ask a set with each method; one that the server does not offer is left out, and that is said."""
    console = stderr_console()
    for name, method in chosen.items():
        try:
            answers = list(ask_all(client, method, _tracked(one, name, console), server.cpu_ms))
        except MethodMissingError as error:
            console.print(f"{name} is left out of {one.name}: {error}", style="yellow", soft_wrap=True)
            continue
        others = off_topic(one.questions) if isinstance(method, Recall) else []
        yield name, summarise(answers, list(ask_all(client, method, others, server.cpu_ms)))


def _tracked(one: LabelledSet, name: str, console: Console) -> Iterator[Question]:
    label, hidden = f"{one.name}: {name}", not console.is_terminal
    yield from track(one.questions, label, console=console, transient=True, disable=hidden)


def _show(parts: Sequence[Text | Table]) -> None:
    console = stdout_console()
    console.width = max(console.width, _WIDTH) if not console.is_terminal else console.width
    for part in parts:
        console.print(part)


def main() -> None:
    """Run. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 prompts wait for answers."""
    sys.exit(bench_recall.main(prog_name="scripts/bench_recall"))


if __name__ == "__main__":
    main()
