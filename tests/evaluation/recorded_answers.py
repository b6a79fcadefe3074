"""The answers of a model to a small invented set, and a way to record them again.

`recorded/` has what two people said, what is asked about them, and `answers.json`: for every question the answers of a
model, one a prompt, each with the hash of the prompt that it answers. A prompt that changes has another hash, and the
test that runs the set says so. Then:

    PYTHONPATH=tests:scripts .venv/bin/python tests/evaluation/recorded_answers.py FOLDER

gives every prompt the answer that stands at its place in `answers.json`, and writes the new hashes there. Do this where
the answers are still what a model would say to the prompts. Prompts that have no answer there are left in FOLDER: let
any model answer one, write its answer to `answers.json` with `"prompt": ""`, and run it again.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from evaluation.bench import bench_recall
from evaluation.recorded_endpoint import ANSWER, PROMPT

SET = Path(__file__).parent / "recorded"
_ANSWERS = SET / "answers.json"
_SETTINGS = {"NOMEMORY_EMBEDDER": "none"}  # vectors, and with them prompts, may differ from processor to processor

Recorded = dict[str, list[dict[str, Any]]]
"""By question, the answers in the order of its prompts: `{"prompt": hash, "answer": object}`."""


def recorded() -> Recorded:
    """Read the answers."""
    answers: Recorded = json.loads(_ANSWERS.read_text("utf-8"))
    return answers


def lay_out(answers: Recorded, folder: Path) -> None:
    """Write the answers to files that `bench_recall --prompts` looks for."""
    for item in (item for of_question in answers.values() for item in of_question if item["prompt"]):
        text = json.dumps(item["answer"], ensure_ascii=False)
        (folder / f"{item['prompt']}{ANSWER}").write_text(text, encoding="utf-8")


def run(folder: Path, *arguments: str) -> Result:
    """Recall the set with the answers of a folder."""
    command = ["--data", str(SET), "--prompts", str(folder), *arguments]
    return CliRunner().invoke(bench_recall, command, env=_SETTINGS)


@dataclass
class Rerecording:
    """Answers on their way to new hashes.

    Attributes:
        answers: as they are so far.
        done: how many prompts of each question have been seen.
    """

    answers: Recorded
    done: dict[str, int]

    def take(self, prompt: Path) -> bool:
        """Give a prompt its answer; returns whether there is one."""
        question_id = _question_of(prompt.read_text("utf-8"))
        index = self.done.get(question_id, 0)
        answers = self.answers.get(question_id, [])
        if index >= len(answers):
            return False
        answers[index]["prompt"] = prompt.name.removesuffix(PROMPT)
        self.done[question_id] = index + 1
        return True


def _question_of(prompt: str) -> str:
    questions = [json.loads(line) for line in (SET / "questions.jsonl").read_text("utf-8").splitlines()]
    return next(str(item["question_id"]) for item in questions if item["question"] in prompt)


def _waiting(folder: Path) -> Iterator[Path]:
    return (item for item in sorted(folder.glob(f"*{PROMPT}")) if not (folder / _answer_name(item)).exists())


def _answer_name(prompt: Path) -> str:
    return prompt.name.removesuffix(PROMPT) + ANSWER


def _write(answers: Recorded) -> None:
    """Write the answers, those of a question on a line."""
    lines = (
        f"{json.dumps(question_id)}: {json.dumps(answers_given, ensure_ascii=False)}"
        for question_id, answers_given in answers.items()
    )
    _ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def rerecord(left: Path) -> int:
    """Record all answers again; returns how many prompts have none. They are in the folder `left`."""
    ours = Rerecording(
        {
            question_id: [dict(item, prompt="") for item in answers_given]
            for question_id, answers_given in recorded().items()
        },
        {},
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder)
        while [item for item in _waiting(folder) if ours.take(item)]:
            lay_out(ours.answers, folder)
            run(folder)
        waiting = list(_waiting(folder))
        left.mkdir(exist_ok=True)
        for prompt in waiting:
            shutil.copy(prompt, left)
    kept = {
        question_id: [item for item in answers_given if item["prompt"]]
        for question_id, answers_given in ours.answers.items()
    }
    _write(kept)
    return len(waiting)


if __name__ == "__main__":
    print(f"{rerecord(Path(sys.argv[1]))} prompts in {sys.argv[1]} have no answer.")  # noqa: T201
