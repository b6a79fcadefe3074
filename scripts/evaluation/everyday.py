"""`scripts/bench_everyday`: how many everyday questions to the sample users are answered in the first two lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from evaluation.asking import Found, Recall
from evaluation.labelled_file import LabelledDataError, Question, read_messages, read_questions
from evaluation.labelled_set import IndexesBehindError, load, wait_for_indexes
from evaluation.temporary_server import ServerStartError, temporary_server
from nomemory.cli.console import stdout_console
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client

_SAMPLE: Final = Path(__file__).resolve().parents[2] / "sample"
_LINES: Final = 2
_ASSERTED: Final = frozenset({"SUPPORTED", "CONFLICTING"})


@dataclass(frozen=True, slots=True)
class Everyday:
    """A question and what a recall by rules made of it."""

    question: Question
    found: Found

    @property
    def is_right(self) -> bool:
        """Whether one of the first two lines cites evidence; where nothing answers, whether no answer is asserted."""
        if not self.question.evidence:
            return self.found.verdict not in _ASSERTED
        lines = self.found.view.statements[:_LINES] if self.found.view else ()
        return any(self.question.evidence & cited for cited in lines)


def summary(asked: Iterable[Everyday]) -> str:
    """Say how many of the answerable and of the unanswerable questions are right."""
    judged = list(asked)
    answerable = [item.is_right for item in judged if item.question.evidence]
    others = [item.is_right for item in judged if not item.question.evidence]
    return (
        f"{sum(answerable)} of {len(answerable)} answered in the first two lines; "
        f"{len(others) - sum(others)} of {len(others)} unanswerable ones asserted"
    )


@click.command("bench_everyday", context_settings={"help_option_names": ["-h", "--help"]})
def bench_everyday() -> None:
    """Ask the questions of sample/everyday.jsonl of a fresh server, by rules.

    A question is answered if one of the first two lines of the view cites its evidence. One that nothing answers must
    not be SUPPORTED or CONFLICTING.
    """
    try:
        asked = _asked(read_questions(_SAMPLE / "everyday.jsonl"))
    except (LabelledDataError, IndexesBehindError, ServerStartError) as error:
        raise click.ClickException(str(error)) from None
    except NoMemoryError as error:
        raise click.ClickException(f"the server refused a call: {error}") from None
    table = Table("question", "", "verdict", "sufficiency", "quoted", box=None)
    for item in asked:
        quoted = " ".join(",".join(sorted(cited)) for cited in _statements(item.found))
        mark, estimate = "+" if item.is_right else "-", f"{item.found.sufficiency or 0:.2f}"
        table.add_row(item.question.text, mark, item.found.verdict, estimate, quoted)
    console = stdout_console()
    console.print(table)
    console.print(summary(asked))


def _asked(questions: Iterable[Question]) -> list[Everyday]:
    with (
        temporary_server({"NOMEMORY_RECALL_PLANNER": "rules", "NOMEMORY_AUDIT_LOG": "false"}) as server,
        Client(server.target) as client,
    ):
        path = _SAMPLE / "messages.jsonl"
        load(client, path, read_messages(path))
        wait_for_indexes(client)
        return [Everyday(question, Recall()(client, question)) for question in questions]


def _statements(found: Found) -> tuple[frozenset[str], ...]:
    return found.view.statements if found.view else ()


def main() -> None:
    """Run. Exit codes: 0 done, 1 failed, 2 wrong usage."""
    sys.exit(bench_everyday.main(prog_name="scripts/bench_everyday"))


if __name__ == "__main__":
    main()
