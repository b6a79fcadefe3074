"""What contradicts what, in Chinese and English, and what only seems to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from recall.synthesis.labelled import answer, labelled, messages

from nomemory.recall.grounding.contradictions import MAX_CONFLICTS, find_conflicts
from nomemory.recall.model.evidence import Retrieval, Retrieved
from nomemory.recall.model.memory_view import Citation, Statement
from nomemory.recall.model.question import Role
from nomemory.recall.passages.passage import passages
from nomemory.recall.passages.reader import PassageReader

NOW = datetime(2025, 3, 1, 9, tzinfo=UTC)


def conflicts(*contents: str, names: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the pairs among whole messages of role user, each said ten days after the one before."""
    said = [
        Retrieved(f"m{number}", NOW + timedelta(days=10 * number), Role.USER, content, name)
        for number, (content, name) in enumerate(zip(contents, names or ("",) * len(contents), strict=True))
    ]
    statements = [Statement(m.content, (Citation(m.message_id, m.content, 0, len(m.content), m.ts),)) for m in said]
    retrieval = Retrieval()
    retrieval.add(said)
    return [(pair.earlier.text, pair.later.text) for pair in find_conflicts(statements, PassageReader(retrieval))]


CONTRADICTIONS = [
    ("我从小不吃辣", "我现在能吃微辣了"),
    ("我很喜欢喝咖啡", "我不喝咖啡了"),
    ("我爱吃香菜", "我最讨厌香菜"),
    ("海鲜我不能吃", "昨天我吃海鲜吃得很开心"),
    ("我从来没去过日本", "我去年去过日本"),
    ("我在云杉科技工作", "我跳槽到白鹭软件了"),
    ("我在云杉科技做工程师", "我下午跟云杉科技提离职了"),
    ("我住在杭州", "我上个月搬到苏州了"),
    ("房租一个月 3200", "新房子房租 2500"),
    ("交稿日期是 5 月 15 号", "5 月 15 号交不了，推到 6 月 1 号"),
    ("打算五月去青岛", "青岛不去了，票也退了"),
    ("我是夜猫子", "我一直都是早睡早起"),
    ("我吃素好几年了", "医生让我吃肉，我又开始吃鱼了"),
    ("I don't eat spicy food", "I love spicy noodles now"),
    ("I like coffee", "I don't like coffee any more"),
    ("I can't swim", "I can swim"),
    ("I've never broken a bone", "I broke my wrist when I was ten"),
    ("I work at Alder Bank", "I joined Birch Labs in May"),
    ("I live in Leeds", "We moved to York last month"),
    ("My rent is 900 a month", "The new rent is 1100"),
    ("The dentist is on 5 October", "The dentist on 5 October was moved to 12 October"),
    ("We are flying to Oslo in May", "Oslo is cancelled"),
    ("I've been vegan since school", "I had the steak last night"),
    ("I smoke a pipe", "I gave up smoke and pipe"),
    ("I'm a morning person", "I've always been a night owl"),
]


@pytest.mark.parametrize(("earlier", "later"), CONTRADICTIONS)
def test_a_contradiction_is_seen_whichever_side_comes_first_in_the_view(earlier: str, later: str) -> None:
    assert conflicts(earlier, later) == [(earlier, later)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("我从小不吃辣", "小棠爱吃辣"),  # somebody else
        ("我从小不吃辣", "我同事特别能吃辣"),
        ("我从小不吃辣", "她说她很能吃辣"),
        ("I don't eat spicy food", "Priya loves spicy food"),
        ("I don't eat spicy food", "My brother loves spicy food"),
        ("I don't eat spicy food", "She loves spicy food"),
        ("我从小不吃辣", "如果哪天我也能吃辣就好了"),  # supposed
        ("我住在上海", "要是我真的搬去成都，会不会太天真？"),
        ("I live in Leeds", "If I moved to Lisbon I would surf"),
        ("I don't eat fish", "Maybe I eat fish one day"),
        ("我从小不吃辣", "我能吃辣吗？"),  # asked
        ("I don't eat fish", "Do I eat fish?"),
        ("我从小不吃辣", "老板问“你吃辣吗”，招牌上写着“我爱吃辣”"),  # quoted
        ("I'm a teacher", "The sign said “I'm a nurse”"),
        ("我现在能吃微辣了", "中辣还是不行"),  # another degree
        ("我不吃生鱼", "我爱吃鱼"),  # one kind is denied, not all
        ("I don't like green tea", "I like tea"),
        ("以前住在上海", "我住在成都"),  # told as past
        ("I used to live in York", "I live in Leeds"),
        ("我对芒果过敏", "我对花粉不过敏"),
        ("I like running", "I didn't run on Sunday"),  # one occasion
        ("交稿日期是 5 月 15 号", "讲座推到 6 月 1 号"),  # another date
        ("The dentist is on 5 October", "The race was moved to 12 October"),
        ("We are flying to Oslo in May", "Rome is cancelled"),
        ("我住在杭州", "我朋友搬到苏州了"),
        ("房租一个月 3200", "工资 12000"),
        ("我在云杉科技工作", "云杉科技今天团建"),
    ],
)
def test_what_only_seems_to_contradict_does_not(one: str, other: str) -> None:
    assert conflicts(one, other) == []
    assert conflicts(other, one) == []


def test_two_people_on_one_telephone_do_not_contradict_each_other() -> None:
    assert conflicts("我不吃辣", "我能吃辣", names=("", "妈妈")) == []


def test_one_message_does_not_contradict_itself() -> None:
    assert conflicts("我以为我不吃辣。我能吃辣。") == []


@pytest.mark.parametrize(
    ("question_id", "pairs"),
    [
        ("lin-q01", {("lin-0010", "lin-0146")}),  # 不吃辣 → 微辣
        ("lin-q08", {("lin-0010", "lin-0146")}),
        ("lin-q04", {("lin-0002", "lin-0083"), ("lin-0002", "lin-0087")}),  # another employer
        ("lin-q14", {("lin-0032", "lin-0133")}),
        ("lin-q15", {("lin-0076", "lin-0097")}),  # another city
        ("lin-q16", {("lin-0142", "lin-0164")}),  # another deadline
        ("lin-q17", {("lin-0113", "lin-0131")}),
        ("lin-q18", {("lin-0076", "lin-0106")}),
        ("sam-q01", {("sam-0015", "sam-0083")}),  # vegetarian → fish
        ("sam-q07", {("sam-0015", "sam-0083")}),
        ("sam-q04", {("sam-0002", "sam-0095")}),
        ("sam-q12", {("sam-0021", "sam-0077")}),  # the race
        ("sam-q13", {("sam-0039", "sam-0117")}),
        ("sam-q14", {("sam-0089", "sam-0102")}),
        ("sam-q15", {("sam-0060", "sam-0108")}),
    ],
)
def test_the_changes_of_the_sample_are_seen(question_id: str, pairs: set[tuple[str, str]]) -> None:
    one = labelled(question_id)
    synthesis = answer(one, one.evidence).synthesis
    found = {(pair.earlier.citations[0].message_id, pair.later.citations[0].message_id) for pair in synthesis.conflicts}
    assert found >= pairs
    assert all(pair.earlier.citations[0].ts < pair.later.citations[0].ts for pair in synthesis.conflicts)


@pytest.mark.parametrize(("user_id", "most"), [("lin", 12), ("sam", 10), ("mei", 0)])
def test_a_year_of_chat_as_one_view_has_only_the_conflicts_that_are_real(user_id: str, most: int) -> None:
    retrieval = Retrieval()
    retrieval.add(messages(user_id))
    statements = [
        Statement(passage.text, (Citation(message.message_id, passage.text, passage.start, passage.end, message.ts),))
        for message in retrieval
        if message.role is Role.USER
        for passage in passages(message)
    ]
    assert len(find_conflicts(statements, PassageReader(retrieval))) == min(most, MAX_CONFLICTS)
