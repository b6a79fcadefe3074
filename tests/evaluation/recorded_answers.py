"""The recorded model answers to a small invented set, and a script that records them again.

`recorded/` contains the messages of two users, the questions, and `answers.json`, which has the model answers of every
question, one per prompt, each with the hash of its prompt. If a prompt changes, its hash changes, and the test that
runs the set fails. The command

    PYTHONPATH=tests:scripts .venv/bin/python tests/evaluation/recorded_answers.py FOLDER

assigns the answers in `answers.json` to the new prompts by position and writes the new hashes. Use it if a model would
still give these answers. Prompts without an answer are written to FOLDER: let a model answer them, add the answers to
`answers.json` with `"prompt": ""`, and run the command again.
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
_SETTINGS = {"NOMEMORY_EMBEDDER": "none"}  # vectors, and therefore prompts, may differ between processors

Recorded = dict[str, list[dict[str, Any]]]
"""By question, the answers in the order of its prompts: `{"prompt": hash, "answer": object}`."""


def recorded() -> Recorded:
    """Read the answers."""
    answers: Recorded = json.loads(_ANSWERS.read_text("utf-8"))
    return answers


def write_answers(answers: Recorded, folder: Path) -> None:
    """Write the answers to the files that `bench_recall --prompts` reads."""
    for item in (item for of_question in answers.values() for item in of_question if item["prompt"]):
        text = json.dumps(item["answer"], ensure_ascii=False)
        (folder / f"{item['prompt']}{ANSWER}").write_text(text, encoding="utf-8")


def run(folder: Path, *arguments: str) -> Result:
    """Evaluate the set with the answers in a folder."""
    command = ["--data", str(SET), "--prompts", str(folder), *arguments]
    return CliRunner().invoke(bench_recall, command, env=_SETTINGS)


@dataclass
class Rerecording:
    """Assigns the recorded answers to new prompt hashes.

    Attributes: answers: the answers assigned so far. done: the number of processed prompts by question.
    """

    answers: Recorded
    done: dict[str, int]

    def take(self, prompt: Path) -> bool:
        """Assign an answer to a prompt; return whether there is one."""
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
    """Write the answers of each question on one line."""
    lines = (
        f"{json.dumps(question_id)}: {json.dumps(answers_given, ensure_ascii=False)}"
        for question_id, answers_given in answers.items()
    )
    _ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def rerecord(left: Path) -> int:
    """Record all answers again; return the number of prompts without one, which are in the folder `left`."""
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
            write_answers(ours.answers, folder)
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
