"""Extractive statements: the passages that bear on the question, verbatim, in their sections."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recall.synthesis.labelled import answer, labelled

from nomemory.recall.model.evidence import Evidence, Retrieved
from nomemory.recall.model.memory_view import DraftStatement, Section
from nomemory.recall.model.question import Question, Role
from nomemory.recall.skills.skill import Skill
from nomemory.recall.synthesis.extractive import MOST, RulesSynthesiser, extract
from nomemory.recall.synthesis.sections import section_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def evidence(*contents: str, role: Role = Role.USER, name: str = "") -> list[Evidence]:
    return [
        Evidence(Retrieved(f"m{number}", NOW - timedelta(days=number), role, content, name), 1 / number)
        for number, content in enumerate(contents, 1)
    ]


def texts(question: str, found: list[Evidence]) -> list[str]:
    return [draft.text for draft in extract(Question(question, NOW), found)]


def cited(question_id: str) -> set[str]:
    one = labelled(question_id)
    view = answer(one, one.evidence).synthesis.view
    return {citation.message_id for statement in view.statements() for citation in statement.citations}


@pytest.mark.parametrize(
    ("question", "content", "statement"),
    [
        ("我是不是说过我不吃辣？", "小炒肉就算了，我从小不吃辣。明天几点开会？", "小炒肉就算了，我从小不吃辣"),
        (
            "Which medicine am I allergic to?",
            "If it comes to that, I'd say: penicillin gives me hives. Bye",
            "penicillin gives me hives",
        ),
        ("Do I eat spicy food?", "我从小不吃辣。今天好累。", "我从小不吃辣"),
        ("我做什么职业？", "Long day. I'm a staff nurse in Leeds.", "I'm a staff nurse in Leeds"),
        ("我对什么过敏？", "我對芒果過敏，別放。", "我對芒果過敏，別放"),
    ],
)
def test_a_statement_is_the_passage_that_bears_on_the_question(question: str, content: str, statement: str) -> None:
    assert texts(question, evidence(content)) == [statement]


@pytest.mark.parametrize(
    ("question", "content"),
    [
        ("我吃辣吗？", "辣的菜怎么做？"),  # a question
        ("我吃辣吗？", "如果我能吃辣，大概是被附体了"),  # a supposition
        ("我吃辣吗？", "小棠说没有辣椒的饭等于白吃"),  # about somebody else
        ("Do I eat spicy food?", "Priya loves chilli."),
        ("Do I eat spicy food?", "She eats it with chilli."),
        ("我吃辣吗？", "帮我点一份辣的外卖"),  # an order
        ("我吃辣吗？", "今天开了两个小时的会"),  # not about it
    ],
)
def test_what_does_not_bear_on_the_question_is_no_statement(question: str, content: str) -> None:
    assert texts(question, evidence(content)) == []


def test_what_a_statement_names_is_followed_to_other_messages() -> None:
    found = evidence("新项目的代号定了，叫“白鹭匣”", "白鹭匣第二阶段改名 Heron", "今天好累")
    assert texts("新项目的代号是什么？", found) == ["新项目的代号定了，叫“白鹭匣”", "白鹭匣第二阶段改名 Heron"]


def test_what_a_tool_says_of_nobody_is_never_what_the_user_said() -> None:
    for content in ("我从小不吃辣", "I eat no chilli."):
        assert texts("我吃辣吗？", evidence(content, role=Role.TOOL)) == []
        assert texts("我吃辣吗？", evidence(content, role=Role.TOOL, name="profile.lookup")) == []


def test_what_a_tool_says_of_somebody_is_quoted_where_they_are_asked_about() -> None:
    found = evidence("Priya loves chilli.", role=Role.TOOL, name="contacts.search")
    assert texts("Does Priya eat chilli?", found) == ["Priya loves chilli"]
    assert texts("Do I eat chilli?", found) == []


def test_the_assistant_is_quoted_only_when_its_words_are_asked_for() -> None:
    promise = evidence("我会每周五晚上提醒你记一次进度。", role=Role.ASSISTANT)
    assert texts("你答应过每周五提醒我什么？", promise)
    assert not texts("我每周五要做什么？", promise)


def test_the_system_is_never_quoted() -> None:
    assert not texts("你答应过提醒我什么？", evidence("我会提醒用户吃药", role=Role.SYSTEM))


def test_another_person_on_the_users_telephone_is_quoted_only_when_asked_for() -> None:
    found = [*evidence("I like soup.", "I eat early."), *evidence("I can't stand coriander.", name="Priya")]
    assert texts("Who can't stand coriander?", found) == ["I can't stand coriander"]
    assert texts("Do I eat coriander?", found) == ["I eat early"]


def test_a_user_whose_messages_carry_a_name_is_still_the_asker() -> None:
    assert texts("我吃辣吗？", evidence("我从小不吃辣", "你好", name="林悦")) == ["我从小不吃辣"]


@pytest.mark.parametrize(
    ("text", "section"),
    [
        ("我从小不吃辣", Section.PREFERENCES),
        ("我喜欢安静的餐厅", Section.PREFERENCES),
        ("以后你给我总结东西，都按三段写，别超过三句", Section.PREFERENCES),
        ("From now on give me bullet points, no tables", Section.PREFERENCES),
        ("I'd rather walk", Section.PREFERENCES),
        ("I can't stand coriander", Section.PREFERENCES),
        ("我对芒果过敏", Section.CONSTRAINTS),
        ("3 月 20 号之前要把 PPT 发给书店", Section.CONSTRAINTS),
        ("体检前不能喝水", Section.CONSTRAINTS),
        ("I'm allergic to penicillin", Section.CONSTRAINTS),
        ("The report is due on Friday", Section.CONSTRAINTS),
        ("Never: more than three nights in a row", Section.CONSTRAINTS),
        ("我在书店做编辑", Section.PROFILE),
        ("I've never broken a bone in my life", Section.PROFILE),
        ("My sister lives in Cardiff", Section.PROFILE),
    ],
)
def test_statements_are_sorted_into_sections(text: str, section: Section) -> None:
    assert section_of(text) is section


@pytest.mark.parametrize(
    ("question_id", "ids"),
    [
        ("lin-q01", {"lin-0010", "lin-0146", "lin-0150"}),
        ("lin-q02", {"lin-0010", "lin-0041"}),
        ("lin-q03", {"lin-0015"}),
        ("lin-q04", {"lin-0002", "lin-0083", "lin-0087"}),
        ("lin-q05", {"lin-0214", "lin-0219"}),
        ("lin-q06", {"lin-0202", "lin-0205", "lin-0209"}),
        ("sam-q01", {"sam-0015", "sam-0083"}),
        ("sam-q03", {"sam-0010"}),
        ("sam-q19", {"sam-0024"}),
        ("sam-q22", {"sam-0086"}),
    ],
)
def test_the_sample_questions_are_answered_with_the_right_messages(question_id: str, ids: set[str]) -> None:
    assert cited(question_id) >= ids


WORDS = st.sampled_from(
    ["我不吃辣", "I eat fish", "，", "。", ", ", ". ", "？", "\n", "“", "”", "😀", "3 月 5 号", "\ud83d"]
)
CONTENT = st.lists(WORDS, max_size=40).map("".join) | st.text(max_size=60)


@given(CONTENT, st.lists(CONTENT, max_size=5))
def test_whatever_is_asked_and_found_statements_are_few_and_verbatim(question: str, contents: list[str]) -> None:
    found = evidence(*contents)
    drafts = extract(Question(question, NOW), found)
    by_id = {one.message.message_id: one.message.content for one in found}
    assert len(drafts) <= MOST
    for draft in drafts:
        (citation,) = draft.citations
        assert draft.text == citation.quote
        assert citation.quote in by_id[citation.message_id]


async def test_the_rules_synthesiser_drafts_statements() -> None:
    drafts = await RulesSynthesiser().draft(Question("我吃辣吗？", NOW), Skill("s", "", ""), evidence("我不吃辣"))
    assert [type(draft) for draft in drafts] == [DraftStatement]
