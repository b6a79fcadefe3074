"""`scripts/bench_recall`: whether the right messages come back, judged by labelled evidence."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
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

from nomemory.cli.terminal import stderr_console, stdout_console
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client
from nomemory.evaluation import methods
from nomemory.evaluation.ablation import ablation, ablation_tables
from nomemory.evaluation.asking import MethodMissingError, ask_all
from nomemory.evaluation.destination import Destination, destination_options
from nomemory.evaluation.labelled_file import LabelledDataError
from nomemory.evaluation.labelled_set import LabelledSet, read_sets
from nomemory.evaluation.leave_one_out import Asked, leave_one_out
from nomemory.evaluation.loading import IndexesBehindError, load, wait_for_indexes
from nomemory.evaluation.methods import Method
from nomemory.evaluation.off_topic import off_topic
from nomemory.evaluation.question import Question
from nomemory.evaluation.summary import summarise
from nomemory.evaluation.table import left_out_table, tables
from nomemory.evaluation.temporary_server import ServerStartError, TemporaryServer, temporary_server
from nomemory.importing.progress import catching_up
from nomemory.server.embedding import vector_store as kept_vectors

_WIDTH: Final = 160
_FAILURES: Final = (LabelledDataError, IndexesBehindError, ServerStartError, kept_vectors.KeptVectorsError)


def _listed(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _known(context: click.Context, parameter: click.Parameter, text: str) -> list[str]:
    names = _listed(context, parameter, text)
    if unknown := set(names) - set(methods.NAMES):
        raise click.BadParameter(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(methods.NAMES)}.")
    return names


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nomemory"


@click.command("bench_recall", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True, help="Folder of the sets."
)
@destination_options
@click.option(
    "--methods", "names", callback=_known, default=",".join(methods.NAMES), show_default=True, help="What to ask."
)
@click.option("--sets", callback=_listed, default="", help="The sets to use, parted by commas. Default: all.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Questions of each set, spread over it. 0: all.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=_cache_folder,
    help="Folder where vectors are kept between runs. Default: nomemory in the user's cache.",
)
@click.option(
    "--leave-one-out",
    "loo",
    is_flag=True,
    help="Judge the memory views of each labelled person at operating points that the others chose.",
)
@click.option("--ablate", is_flag=True, help="Measure HybridSearch again without each step of its ranking.")
def bench_recall(
    *,
    data: Path,
    destination: Destination,
    names: Sequence[str],
    sets: Sequence[str],
    limit: int,
    cache: Path,
    loo: bool,
    ablate: bool,
) -> None:
    """Load labelled sets into a fresh server, ask their questions, and report how much of the evidence comes back.

    A set is NAME.messages.jsonl with NAME.questions.jsonl beside it, in the form of sample/. What was said at or after
    a question's `now` is not looked at. Settings of the server can be given as environment variables; recall plans with
    `rules`.
    """
    try:
        chosen = [one.thinned(limit) for one in read_sets(data, sets)]
        results = _measured(chosen, names, cache / "embeddings.db", {})
        left_out = leave_one_out(partial(_recalled, chosen, cache / "embeddings.db")) if loo else {}
        steps = ablation(partial(_measured, chosen, [methods.HYBRID], cache / "embeddings.db")) if ablate else {}
    except _FAILURES as error:
        raise click.ClickException(str(error)) from None
    except NoMemoryError as error:
        raise click.ClickException(f"the server refused a call: {error}") from None
    _show([part for name, by_method in results.items() if by_method for part in tables(name, by_method)])
    _show(list(ablation_tables(steps)))
    _show([left_out_table(left_out)] if left_out else [])
    destination.write(results, {"ablation": steps, "leave_one_out": left_out})


def _measured(
    sets: Sequence[LabelledSet], names: Sequence[str], cache: Path, further: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_settings(cache), **further}))
        client = stack.enter_context(Client(server.target))
        chosen = methods.methods(names)
        _load(client, sets)
        return {one.name: dict(_asked(server, client, one, chosen, cache)) for one in sets}


def _recalled(sets: Sequence[LabelledSet], cache: Path, further: Mapping[str, str]) -> Asked:
    """Let a server with further settings recall the labelled questions."""
    labelled = [replace(one, questions=tuple(asked for asked in one.questions if asked.verdict)) for one in sets]
    labelled = [one for one in labelled if one.questions]
    with ExitStack() as stack:
        server = stack.enter_context(temporary_server({**_settings(cache), **further}))
        client = stack.enter_context(Client(server.target))
        _load(client, labelled)
        questions = [question for one in labelled for question in one.questions]
        recall = methods.Recall()
        answers = list(ask_all(client, recall, questions, server.cpu_ms))
        return Asked(answers, list(ask_all(client, recall, off_topic(questions), server.cpu_ms)))


def _settings(cache: Path) -> dict[str, str]:
    return {"NOMEMORY_EMBEDDING_CACHE": str(cache), "NOMEMORY_RECALL_PLANNER": "rules"}


def _load(client: Client, sets: Sequence[LabelledSet]) -> None:
    for one in sets:
        load(client, one.path, one.messages)
    with catching_up(stderr_console()) as tell:
        wait_for_indexes(client, tell)


def _asked(
    server: TemporaryServer, client: Client, one: LabelledSet, chosen: dict[str, Method], cache: Path
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ask a set with each method; one that the server does not offer is left out, and that is said."""
    console = stderr_console()
    for name, method in chosen.items():
        kept = kept_vectors.count(cache)
        try:
            answers = list(ask_all(client, method, _tracked(one, name, console), server.cpu_ms))
        except MethodMissingError as error:
            console.print(f"{name} is left out of {one.name}: {error}", style="yellow", soft_wrap=True)
            continue
        if made := kept_vectors.count(cache) - kept:
            told = f"{one.name}, {name}: {made:,} texts were embedded meanwhile; its times are higher for it."
            console.print(told, soft_wrap=True)
        others = off_topic(one.questions) if name == methods.RECALL else []
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
    """Run. Exit codes: 0 done, 1 failed, 2 wrong usage."""
    sys.exit(bench_recall.main(prog_name="scripts/bench_recall"))


if __name__ == "__main__":
    main()
