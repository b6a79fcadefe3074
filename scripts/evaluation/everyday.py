"""`scripts/bench_everyday`: share of everyday questions that the first two statements of a recall answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.table import Table

from evaluation.asking import MethodResult, RecallMethod
from evaluation.labeled_file import LabeledDataError, Question, read_messages, read_questions
from evaluation.labeled_set import IndexingTimeoutError, import_messages, wait_for_indexes
from evaluation.temporary_server import ServerStartError, temporary_server
from nomemory.cli.console import create_stdout_console
from nomemory.client.errors import NoMemoryError
from nomemory.client.sync import Client

_SAMPLE: Final = Path(__file__).resolve().parents[2] / "sample"
_STATEMENTS: Final = 2
_ASSERTED: Final = frozenset({"SUPPORTED", "CONFLICTING"})


@dataclass(frozen=True, slots=True)
class EverydayResult:
    """A question and the result of a rule-based recall."""

    question: Question
    result: MethodResult

    @property
    def is_correct(self) -> bool:
        """Whether one of the first two statements cites evidence.

        For an unanswerable question: whether the verdict asserts no answer.
        """
        if not self.question.evidence:
            return self.result.verdict not in _ASSERTED
        statements = self.result.view.statements[:_STATEMENTS] if self.result.view else ()
        return any(self.question.evidence & cited for cited in statements)


def summarize_results(results: Iterable[EverydayResult]) -> str:
    """Return a sentence with the number of correct results for answerable and for unanswerable questions."""
    evaluated = list(results)
    answerable = [item.is_correct for item in evaluated if item.question.evidence]
    others = [item.is_correct for item in evaluated if not item.question.evidence]
    return (
        f"{sum(answerable)} of {len(answerable)} answered in the first two statements; "
        f"{len(others) - sum(others)} of {len(others)} unanswerable ones asserted"
    )


@click.command("bench_everyday", context_settings={"help_option_names": ["-h", "--help"]})
def bench_everyday() -> None:
    """Run a recall for each question of sample/everyday.jsonl, on a new server with the planner `rules`.

    A question is answered if one of the first two statements cites its evidence. The verdict of an unanswerable
    question must not be SUPPORTED or CONFLICTING.
    """
    try:
        results = _recall_questions(read_questions(_SAMPLE / "everyday.jsonl"))
    except (LabeledDataError, IndexingTimeoutError, ServerStartError) as error:
        raise click.ClickException(str(error)) from None
    except NoMemoryError as error:
        raise click.ClickException(f"a call to the evaluation server failed: {error}") from None
    table = Table("question", "", "verdict", "sufficiency", "quoted", box=None)
    for item in results:
        quoted = " ".join(",".join(sorted(cited)) for cited in _collect_cited_ids_by_statement(item.result))
        mark, estimate = "+" if item.is_correct else "-", f"{item.result.sufficiency or 0:.2f}"
        table.add_row(item.question.text, mark, item.result.verdict, estimate, quoted)
    console = create_stdout_console()
    console.print(table)
    console.print(summarize_results(results))


def _recall_questions(questions: Iterable[Question]) -> list[EverydayResult]:
    with (
        temporary_server({"NOMEMORY_RECALL_PLANNER": "rules", "NOMEMORY_AUDIT_LOG": "false"}) as server,
        Client(server.target) as client,
    ):
        path = _SAMPLE / "messages.jsonl"
        import_messages(client, path, read_messages(path))
        wait_for_indexes(client)
        return [EverydayResult(question, RecallMethod()(client, question)) for question in questions]


def _collect_cited_ids_by_statement(result: MethodResult) -> tuple[frozenset[str], ...]:
    return result.view.statements if result.view else ()


def main() -> None:
    """Run the command. Exit statuses: 0 success, 1 failure, 2 invalid usage."""
    sys.exit(bench_everyday.main(prog_name="scripts/bench_everyday"))


if __name__ == "__main__":
    main()
