"""Tests for every rule of the skill check with valid and invalid text."""

from __future__ import annotations

from pathlib import Path

import pytest
from recall.skills.folders import head, written

from nomemory.recall.authoring.check import SkillReport, check_skill, find_skill_folders
from nomemory.recall.authoring.rules import Rule, Severity, render_rule_table
from nomemory.recall.skills.loader import SkillLibrary

ROOT = Path(__file__).parents[3]
START = "name: tea\ndescription: Finds what was said about tea."

CALL = (
    '{"stop": false, "tool": "lexical_search", "args": {"query_text": "tea", '
    '"filter": {"role": "user", "time_range": {"since": "2026-01-01T00:00:00Z"}}}}'
)
LIST = '{"tool": "messages_list", "args": {"role": "any", "until": "2026-01-01T00:00:00Z"}}'
FORM = """
## Scenario
> tea

## Defaults
- time_range_default: P30D

## Lexicon
- 茶: tea, 红茶

## Query Templates
### preferences
- first: semantic_search

## Playbook
Stop in time.

## Evidence Contract
Fields `message_id, ts, role, content`; coverage `time_range`, `role`.
"""


def json_block(*lines: str) -> str:
    return "\n".join(("Calls:", "```json", *lines, "```"))


def check_written_skill(
    library: Path, body: str = "Search for tea.", start: str = START, **files: str | bytes
) -> SkillReport:
    return check_skill(written(library, SKILL_md=head(start, body), **files))


def rules(report: SkillReport) -> list[str]:
    return [finding.rule.id for finding in report.findings]


BAD_CALLS = (
    '{"tool": "messages_list", "args": {"role": "user"}}',
    '{"tool": "messages_list", "args": {"since": "2026-01-01T00:00:00Z"}}',
    '{"tool": "lexical_search", "args": {"query_text": "tea"}}',
    '{"tool": "semantic_search", "args": {"query_text": "tea", "filter": {"role": "user"}}}',
    '{"tool": "neighbors", "args": {"before": 8}}',
    CALL.replace('"role": "user", ', ""),
    CALL.replace('"filter"', '"filters"'),
    CALL.replace('"query_text"', '"query"'),
    CALL.replace("2026-01-01T00:00:00Z", "last week"),
    CALL.replace('"role": "user"', '"role": "boss"'),
    CALL.replace('"query_text": "tea"', '"query_text": "tea", "page_size": 100000'),
    CALL.replace('"query_text": "tea"', '"query_text": "tea", "limit": 3'),
    CALL.replace("lexical", "semantic").replace('"query_text": "tea", ', ""),
)
BODIES = {
    "tool": (
        ["`lexical_search(query_text, filter?)` finds words.", json_block(CALL), "没有 `delete_message` 这样的工具。"],
        [
            "Use `grep_messages(query)`.",
            "用 `search(query_text)` 找。",
            json_block('{"tool": "web_search", "args": {}}'),
            json_block('{"tool": ["lexical_search"], "args": {}}'),
            "~~~\n" + '{"stop": false, "tool": "run", "args": {}}' + "\n~~~",
        ],
    ),
    "call": (
        [
            json_block(CALL, LIST, '{"stop": true, "tool": "", "args": {}}'),
            json_block('{"tool": "neighbors", "args": {"message_id": "m1"}}'),
            json_block("{", '  "tool": "neighbors",', '  "args": {"message_id": "m1"}', "}"),
            'The form is `{"stop", "tool", "args"}`.',
            json_block('{"preferences": [], "profile": [], "constraints": []}'),
            "```yaml\na: [\n```",
        ],
        [
            json_block(f"[{CALL}]"),
            json_block(f"{CALL} {LIST}"),
            json_block(f"Sure: {CALL}"),
            json_block(CALL, "and so on"),
            json_block('{"tool": "lexical_search", "args": {,}}'),
            json_block('{"tool": "neighbors", "args": "m1"}'),
            json_block('{"tool": "neighbors"}'),
            *(json_block(call) for call in BAD_CALLS),
        ],
    ),
    "user-id": (
        [
            "参数里永远不出现 `user_id`。",
            "Never pass a `user_id`.",
            "`lexical_search(query_text, filter?)`",
            json_block(CALL),
        ],
        [
            "`semantic_search(user_id, query_text)`",
            "| tool |\n|---|\n| `neighbors(message_id, x_user_id?)` |",
            json_block('{"message_id": "m1", "user_id": "u1", "quote": "tea"}'),
            json_block(CALL.replace('"query_text"', '"user_id": "u1", "query_text"')),
            json_block(CALL.replace('"role": "user"', '"role": "user", "tenantId": 3')),
            json_block(LIST.replace('"role"', '"user": "lin", "role"')),
        ],
    ),
    "unreadable": (
        [
            "## 默认值\n- `time_range_default`：`全部`\n- role_default: any\n- top_k_default: 20",
            "## 词表\n- 茶：红茶、tea",
            FORM,
        ],
        [
            "## Defaults\n- role_default: everybody",
            "## Defaults\n- time_range_default: 30d",
            "## 默认值\n- time_range_default：30 天",
            "## Defaults\n- page_size: 500",
            "## Defaults\n- top_k_default: many",
            "## Lexicon\n- tea",
            "## Query Templates\n### preferences\n- first: grep",
            "## Query Templates\n### preferences\n- rewrite: {who} likes",
        ],
    ),
    "sections": ([FORM, "## Playbook\nStop."], ["## Scenario\n> tea", FORM.replace("## Playbook", "## Tips")]),
    "evidence": (
        [FORM, "## 证据契约\n字段 `message_id, ts, role, content`，覆盖 `time_range`、`role`。"],
        ["## Evidence Contract\nQuote it.", FORM.replace("`time_range`, ", ""), FORM.replace("ts, ", "")],
    ),
    "length": (["x" * 3_900], ["x" * 4_100]),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "body"), [(rule, body) for rule, (good, _) in BODIES.items() for body in good])
def test_valid_text_has_no_finding(tmp_path: Path, rule: str, body: str) -> None:
    assert rule not in rules(check_written_skill(tmp_path, body))


@pytest.mark.parametrize(("rule", "body"), [(rule, body) for rule, (_, bad) in BODIES.items() for body in bad])
def test_invalid_text_has_a_finding(tmp_path: Path, rule: str, body: str) -> None:
    report = check_written_skill(tmp_path, body)
    assert rule in rules(report)
    assert Severity.ERROR in {item.severity for item in Rule if item.id == rule} or not report.error_count


@pytest.mark.parametrize(
    ("rule", "skill"),
    [
        ("frontmatter", "# Tea\n"),
        ("frontmatter", "---\nname: tea\n"),
        ("frontmatter", head("name: tea\ndescription: [a]")),
        ("frontmatter", head("name: tea\nname: tea\ndescription: d")),
        ("frontmatter", head(START, body="")),
        ("name", head("name: coffee\ndescription: d")),
        ("name", head("description: d")),
        ("description", head("name: tea")),
        ("description", head("name: tea\ndescription: " + "d" * 1_025)),
        ("frontmatter-key", head(START + "\nlicense: MIT")),
        ("text", b"\xff\xfe"),
        ("text", b"x" * (64 * 1024 + 1)),
    ],
)
def test_skill_without_valid_front_matter_is_rejected(tmp_path: Path, rule: str, skill: str | bytes) -> None:
    assert rules(check_skill(written(tmp_path, SKILL_md=skill))) == [rule]


def test_a_skill_must_be_a_folder_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "tea").mkdir()
    assert rules(check_skill(tmp_path / "tea")) == ["folder"]
    assert rules(check_skill(tmp_path / "nowhere")) == ["folder"]
    assert "name" in rules(check_skill(written(tmp_path, "Tea_1", SKILL_md=head("name: Tea_1\ndescription: d"))))


def test_links_outside_the_skill_are_rejected_and_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("- user_id: canary\n")
    folder = written(tmp_path / "library")
    (folder / "references").mkdir()
    (folder / "references" / "a.md").symlink_to(secret)
    report = check_skill(folder)
    assert rules(report) == ["folder"]
    assert "canary" not in str(report)


def test_rules_apply_to_references(tmp_path: Path) -> None:
    report = check_written_skill(
        tmp_path,
        references__lexicon_md="- 茶",
        references__calls_md=json_block('{"tool": "web", "args": {}}'),
        scripts__more_md="a\n\n`lexical_search(user_id)`",
    )
    locations = [(finding.file, finding.line, finding.rule.id) for finding in report.findings]
    assert locations == [
        ("references/calls.md", 3, "tool"),
        ("references/lexicon.md", 1, "unreadable"),
        ("scripts/more.md", 3, "user-id"),
    ]
    assert "text" in rules(check_written_skill(tmp_path, references__a_md=b"\xff"))
    assert "folder" in rules(check_written_skill(tmp_path, **{f"references__{number}_md": "x" for number in range(17)}))


def test_findings_have_file_line_numbers(tmp_path: Path) -> None:
    body = "\n".join(("one", "two `grep(x)`", json_block(CALL, '{"tool": "web", "args": {}}')))
    report = check_written_skill(tmp_path, body, START + "\nlicense: MIT")
    assert [(finding.line, finding.rule.id) for finding in report.findings] == [
        (4, "frontmatter-key"),
        (7, "tool"),
        (11, "tool"),
    ]


@pytest.mark.parametrize("folder", sorted((ROOT / "skills").iterdir()), ids=lambda folder: folder.name)
def test_shipped_skills_have_no_findings(folder: Path) -> None:
    assert check_skill(folder).findings == ()
    assert SkillLibrary([ROOT / "skills"], folder.name).load().notes == ()


def test_path_selects_one_skill_or_all_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tea, coffee = written(tmp_path), written(tmp_path, "coffee")
    (tmp_path / "notes").mkdir()
    assert find_skill_folders(tmp_path) == [coffee, tea]
    assert find_skill_folders(tea) == find_skill_folders(tea / "SKILL.md") == [tea]
    assert find_skill_folders(tmp_path / "notes") == [tmp_path / "notes"]
    monkeypatch.chdir(tea)
    assert check_skill(Path()).findings == ()
    assert check_skill(Path()).name == "tea"


def test_skills_page_has_the_rule_table() -> None:
    assert render_rule_table() in (ROOT / "docs" / "skills.md").read_text(encoding="utf-8")
