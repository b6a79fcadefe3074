"""Tests for the text and JSON output of `nomemory skill check`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.command_line import Run
from recall.skills.folders import head, written

Golden = Callable[[str, str], None]

BAD = """# Tea

- max_iterations: 50

`semantic_search(user_id, query_text)`

```json
{"tool": "messages_list", "args": {"role": "user"}}
```

## 默认值
- time_range_default: 30d
"""


@pytest.mark.parametrize("form", ["txt", "jsonl"])
def test_skill_check_output_matches_the_golden_file(form: str, run: Run, golden: Golden) -> None:
    library = Path("skills")
    written(library)
    written(
        library, "bad", SKILL_md=head("name: bad\ndescription: d\nlicense: MIT", BAD), references__lexicon_md="- 茶"
    )
    result = run("skill", "check", "skills", *(["--json"] if form == "jsonl" else []))
    assert result.exit_code == 1
    golden(f"skill-check.{form}", f"{result.stdout}--- stderr\n{result.stderr}")


@pytest.mark.parametrize(("body", "code"), [("Search.", 0), ("`neighbors(message_id)`", 0), ("`grep(x)`", 1)])
def test_exit_code_reflects_the_findings(body: str, code: int, run: Run) -> None:
    written(Path(), SKILL_md=head("name: tea\ndescription: d", body))
    assert run("skill", "check", "tea").exit_code == code
    assert run("skill", "check", "tea/SKILL.md", "tea", "--json").exit_code == code


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["--no-such-option"]])
def test_usage_error_exits_with_2(arguments: list[str], run: Run) -> None:
    assert run("skill", "check", *arguments).exit_code == 2


def test_each_skill_is_checked_once_and_printed_as_one_json_line(run: Run) -> None:
    written(Path("skills"))
    written(Path("skills"), "coffee", SKILL_md=head("name: coffee\ndescription: d"))
    result = run("skill", "check", "skills", "skills/tea", "skills/tea/SKILL.md", "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(record["skill"], record["path"], record["errors"], record["findings"]) for record in records] == [
        ("coffee", "skills/coffee", 0, []),
        ("tea", "skills/tea", 0, []),
    ]


def test_skill_text_cannot_send_terminal_escape_sequences(run: Run) -> None:
    written(Path(), SKILL_md=head("name: tea\ndescription: d\n\x1b[2Jx: y", "## Lexicon\n- a\x1b[2J\x9b\n"))
    for more in ([], ["--json"]):
        assert not set(run("skill", "check", "tea", *more).stdout) & {"\x1b", "\x9b"}
