"""Attributes of which somebody has one at a time: where they work and live, what they pay, what kind they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.recall.grounding.quoted import Said
from nomemory.text.normalisation import plain

_PAST = regex.compile(r"以前|曾经|原来|从前|当年|\bused to\b|\bformer(?:ly)?\b|\bback then\b|\bas a child\b")

_PROPER = (
    r"(?P<value>\p{Lu}[\p{L}\p{N}.&]*(?:['’]\p{L}+)?(?: (?:of "
    r"|the )?\p{Lu}[\p{L}\p{N}.&]*(?:['’]\p{L}+)?){0,4})"
)
_PLACE_HAN = (
    r"(?P<value>(?!我们|公司|老家|家里|新家|这里|那里|这边|那边|现在|每月|目前|外地|国外|学校|哪"
    r"|什么)\p{Han}{2,4}?)"
)
_PLACE_ENDS = r"(?=$|[\s,，。了啦的市区呢啊吧]|这边|那边|工作|上班|生活|已经|快|以后|之后)"
_FIRM_HAN = (
    r"(?P<value>(?!家里|公司|这里|那里|我们|这家|熟悉|努力|认真|专心|一边|外面"
    r"|外地)[\p{Han}A-Za-z0-9·]{2,12}?)"
)

_EMPLOYER = (
    regex.compile(
        rf"在{_FIRM_HAN}(?:工作|上班|任职|当(?=\p{{Han}})|做(?=\p{{Han}}{{0,6}}(?:师|员|编辑|经理|主管"
        rf"|总监|助理|顾问|运营|开发)))"
    ),
    regex.compile(rf"(?:入职|加入|跳槽到|换到|跳到|跳槽去){_FIRM_HAN}(?=$|[\s,，。了啦做当的])"),
    regex.compile(
        rf"(?:^|[,，：:\s])(?:\p{{Han}}{{2,3}}的)?{_FIRM_HAN}(?:给我发 ?offer|录用了我|第一天)", regex.IGNORECASE
    ),
    regex.compile(
        rf"\b(?:[Ww]ork(?:s|ing|ed)? (?:at|for)|[Jj]oined|[Jj]ob (?:at|with)|[Ss]tart(?:ed|ing)? at"
        rf"|[Hh]ired by|offer from) (?:the )?{_PROPER}"
    ),
)
_LEFT_EMPLOYER = (
    regex.compile(rf"(?:跟|从|向){_FIRM_HAN}(?:提了?)?(?:离职|辞职)"),
    regex.compile(rf"\b(?:[Ll]eft|[Ll]eaving|[Qq]uit|[Rr]esigned from) (?:the )?{_PROPER}"),
)
_RESIDENCE = (
    regex.compile(rf"(?:住(?!院)在?|搬[去到来进]了?|定居在?|搬家[去到]){_PLACE_HAN}{_PLACE_ENDS}"),
    regex.compile(rf"(?:^|[,，：:\s])(?:我)?(?:刚|已经)?到{_PLACE_HAN}(?=[了啦])"),
    regex.compile(rf"(?:^|[,，：:\s在])(?:我)?{_PLACE_HAN}(?:这边|的?房租)"),
    regex.compile(
        rf"\b(?:[Ll]iv(?:e|ing|ed) in|[Mm]ov(?:e|ed|ing) to|[Bb]ased in|[Rr]elocat\w+ to"
        rf"|[Ss]ettled in) {_PROPER}"
    ),
)
_AMOUNT = regex.compile(
    r"(?P<what>房租|租金|工资|月薪|年薪|薪水|体重|身高|电话|手机号|\b(?:rent|salary|wages?|weight"
    r"|height|phone number)\b)[^\d,，。;]{0,16}?(?P<value>\d[\d,.]*)"
)
_SAME_AMOUNT = {
    "租金": "rent",
    "房租": "rent",
    "工资": "salary",
    "月薪": "salary",
    "薪水": "salary",
    "wage": "salary",
    "wages": "salary",
}

_HEADS = {
    **dict.fromkeys(["护士", "nurse"], "nurse"),
    **dict.fromkeys(["设计师", "designer"], "designer"),
    **dict.fromkeys(["编辑", "editor"], "editor"),
    **dict.fromkeys(["工程师", "程序员", "engineer", "developer", "programmer"], "engineer"),
    **dict.fromkeys(["老师", "教师", "teacher"], "teacher"),
    **dict.fromkeys(["经理", "主管", "护士长", "总监", "manager", "director"], "manager"),
    **dict.fromkeys(["deputy"], "manager"),
    **dict.fromkeys(["医生", "doctor"], "doctor"),
    **dict.fromkeys(["律师", "lawyer"], "lawyer"),
    **dict.fromkeys(["会计", "accountant"], "accountant"),
    **dict.fromkeys(["记者", "journalist"], "journalist"),
    **dict.fromkeys(["厨师", "chef"], "chef"),
    **dict.fromkeys(["司机", "driver"], "driver"),
    **dict.fromkeys(["学生", "student"], "student"),
}
_HEAD = "|".join(sorted(_HEADS, key=len, reverse=True))
_RANK = (
    r"(?:(?:staff|senior|deputy|junior|head|ward|lead|assistant|chief|product|software|art|project"
    r"|graphic|primary|school) )*"
)
_TITLE = regex.compile(
    rf"(?:(?:我是|岗位是|职位是|做|当|升了?)(?:一?[名个位])?(?P<mod>\p{{Han}}{{0,6}}?)"
    rf"|(?:\bi'm|\bi am|\bwork as|\bjob as|\bas|\bpromoted to|\bnew role as)(?: an?| the)? (?P<rank>{_RANK})"
    rf"|(?:^|, )(?P<bare>{_RANK})(?=(?:{_HEAD})(?:$|,| (?:on|at|in|for) )))(?P<head>{_HEAD})(?!的同事)"
)

_PRONOUN = regex.compile(r"\b(?:it|them)\b")
_NOT = r"(?<!不是|不算|不再是|not an? |not a |n't an? |no longer an? |没有?)"
_KINDS: dict[str, dict[str, regex.Pattern[str]]] = {
    "rhythm": {
        "early": regex.compile(
            rf"{_NOT}(?:早起的人|早起型|早睡早起|[五六]点(?:就|左右)?(?:自然醒|起床|醒)"
            r"|early bird|early riser|morning person)"
        ),
        "late": regex.compile(rf"{_NOT}(?:夜猫子|night owl|night person|十二点以后才|凌晨.{{0,4}}才睡)"),
    },
    "diet": {
        "plants": regex.compile(rf"{_NOT}(?:吃素|素食|vegetarian|vegan)"),
        "animals": regex.compile(
            r"(?<![不没]|不能|不再|不想)吃(?:鱼|肉|荤|鸡|牛|羊)"
            r"|(?<!n't |never |not |to )\b(?:eat|eating|ate|had|having)(?: the| a| some"
            r"| my)? (?:sea )?(?:fish|meat|chicken|beef|steak|bass|salmon|lamb|pork|bacon|prawns"
            r"|tuna|sardines)\b"
            r"|\b(?:fish|meat|chicken|beef)\b[^?？]{0,120}\beat (?:it|them) again\b"
        ),
    },
    "partnership": {
        "single": regex.compile(rf"(?:{_NOT}单身|没(?:有)?(?:对象|女朋友|男朋友)|\bi'm single\b)"),
        "attached": regex.compile(
            r"我(?:已婚|结婚了|老公|老婆|男朋友|女朋友)"
            r"|\bi'm (?:married|engaged)\b|\bmy (?:husband|wife|boyfriend|girlfriend)\b"
        ),
    },
    "hand": {
        "left": regex.compile(rf"{_NOT}(?:左撇子|left-handed)"),
        "right": regex.compile(rf"{_NOT}(?:右撇子|right-handed)"),
    },
}


@dataclass(frozen=True, slots=True)
class Value:
    """What somebody's attribute is, or, where `holds` is false, no longer is."""

    attribute: str
    value: str
    holds: bool = True

    def contradicts(self, other: Value) -> bool:
        """Return whether both cannot hold at one time. Values of which one contains the other are the same."""
        if self.attribute != other.attribute or not (self.holds or other.holds):
            return False
        same = self.value in other.value or other.value in self.value
        return same != (self.holds and other.holds)


def values(said: Said) -> list[Value]:
    """Return the attributes that a passage states; of the past, none."""
    if _PAST.search(said.text):
        return []
    return [*_proper(said.spelled), *_amounts(said.text), *_titles(said.text), *_kinds(said)]


def _proper(spelled: str) -> Iterator[Value]:
    for attribute, patterns, holds in (
        ("employer", _EMPLOYER, True),
        ("employer", _LEFT_EMPLOYER, False),
        ("residence", _RESIDENCE, True),
    ):
        for pattern in patterns:
            for match in pattern.finditer(spelled):
                yield Value(attribute, _bare(plain(match["value"])), holds)


def _bare(value: str) -> str:
    """Leave out the place that a firm's name comes after: 成都的竹雨."""
    return value.rpartition("的")[2] or value


def _amounts(text: str) -> Iterator[Value]:
    for match in _AMOUNT.finditer(text):
        yield Value(_SAME_AMOUNT.get(match["what"], match["what"]), f"={match['value'].rstrip('.,')}=")


def _titles(text: str) -> Iterator[Value]:
    for match in _TITLE.finditer(text):
        rank = (match["rank"] or match["bare"] or "").split()
        yield Value("title", " ".join([*rank, _HEADS[match["head"]]]))


def _kinds(said: Said) -> Iterator[Value]:
    for attribute, kinds in _KINDS.items():
        for kind, pattern in kinds.items():
            if pattern.search(said.text) or _reaches(pattern, said):
                yield Value(attribute, kind)


def _reaches(pattern: regex.Pattern[str], said: Said) -> bool:
    """Return whether a pattern begins before a passage and ends in it: Fish. … I eat it again."""
    if not said.before or not _PRONOUN.search(said.text):
        return False
    return any(match.end() > len(said.before) for match in pattern.finditer(f"{said.before}{said.text}"))
