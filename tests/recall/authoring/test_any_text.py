"""Tests that the check of arbitrary skills ends with findings, and that valid skills load."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from recall.skills.folders import head, written

from nomemory.recall.authoring.check import check_skill
from nomemory.recall.skills.folder import SkillInvalidError
from nomemory.recall.skills.loader import SkillLibrary

PIECES = st.sampled_from(
    [
        "---\n", "name: tea\n", "description: d\n", "## Defaults\n", "## 词表\n", "## Query Templates\n", "### 偏好\n",
        "## Scenario\n", "## Evidence Contract\n", "- ", "| ", "```json\n", "```", "~~~\n",
        '{"tool": ', '"args": {', "}",
        "[" * 2_000, '{"a":' * 2_000, "user_id", "(", "（", "）", ")", "`", "``", "semantic_search", "不要",
        "never ", ": ",
        "time_range_default", "P30D", "30d", "1" * 400, "\n", "\r\n", "\x00", "\u2028",
        "，", "if ", "{question}", "<!--",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=8), max_size=30).map("".join)


@given(body=TEXTS, lexicon=TEXTS)
def test_a_skill_that_passes_the_check_loads(body: str, lexicon: str) -> None:
    with tempfile.TemporaryDirectory() as library:
        skill = head("name: tea\ndescription: d", body).encode("utf-8", "replace")
        folder = written(Path(library), SKILL_md=skill, references__lexicon_md=lexicon.encode("utf-8", "replace"))
        report = check_skill(folder)
        assert all(finding.line >= 0 and finding.problem and "\n" not in finding.problem for finding in report.findings)
        if not report.error_count:
            SkillLibrary([Path(library)], "tea").load()


@given(skill=TEXTS.map(str.encode) | st.binary(max_size=200))
def test_check_reports_every_skill_that_does_not_load(skill: bytes) -> None:
    with tempfile.TemporaryDirectory() as library:
        report = check_skill(written(Path(library), SKILL_md=skill))
        try:
            SkillLibrary([Path(library)], "tea").load()
        except SkillInvalidError:
            assert report.error_count


def test_long_lines_are_checked_in_bounded_time(tmp_path: Path) -> None:
    lines = [
        "user_id, " * 4_000,
        "(" * 30_000,
        "`" * 30_000,
        "不" * 20_000,
        "never a " * 5_000 + "user_id=1",
        "a(" * 15_000,
    ]
    for line in lines:
        check_skill(written(tmp_path, SKILL_md=head("name: tea\ndescription: d", line)))
