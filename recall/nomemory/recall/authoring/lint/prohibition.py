"""Decides whether prose forbids what it mentions: “参数里永远不出现 X” is no use of X, and neither is “never pass X”.

What counts is what governs the mention: a word of forbidding in the same clause before it, or right after it. A
condition (“if nothing is found, …”) and a double negation (“不要忘记 X”, “X must not be empty”) forbid nothing.
"""

from __future__ import annotations

import re
from typing import Final

_SENTENCE_END: Final = re.compile(r"[。！？!?；;|]|\.(?=\s|$)")

_ZH_NO: Final = (
    r"不(?:要|得|能|可以?|应该?|许|准|允许|会|需要?|必|用|含|包含|包括|带|接受|收|出现|存在|传|写|问|询问|猜|填|提供|是|再)|"
    r"永不|绝不|从不|永远不|绝对不|没有?|无需|无|禁止|切勿|请勿|勿|别|拒绝|忽略|丢弃|去掉|删除|剔除|以外|而不是|而非"
)
_EN_NO: Final = (
    r"\b(?:(?:do|does|must|may|should|shall|can) not|(?:do|does|must|should|ca)n['’]t|never|not|no|cannot|without|nor"
    r"|neither|none|avoid|forbid(?:s|den)?|prohibit(?:s|ed)?|refuse[sd]?|reject(?:s|ed)?|ignore[sd]?|drop(?:s|ped)?"
    r"|instead of|rather than|free of)\b"
)
_NO: Final = re.compile(rf"(?:{_ZH_NO})|(?:{_EN_NO})", re.IGNORECASE)
_FIRM: Final = re.compile(
    r"never|(?:do|must|may) not|(?:do|must)n['’]t|不要|不得|永远不|永不|绝不|从不|禁止|切勿|请勿", re.IGNORECASE
)
"""What goes on to forbid after a comma, and whatever the condition: “never ask for one, guess one or pass one”."""

_UNDOES: Final = re.compile(
    r"忘|漏|省|缺|空|没有|少了|就|则|然后|否则|的话|时[候,，]?|后[,，]?$|而是"
    r"|\b(?:forget|omit|skip|leave|missing|empty|null|unless|until|then|otherwise|only|but|when|if|so|because)\b",
    re.IGNORECASE,
)
"""Between a word of forbidding and what it would forbid, this makes it mean something else."""
_CONDITION: Final = re.compile(r"如果|若|当|假如|\b(?:if|when|unless|until|once|where)\b[^,，]*$", re.IGNORECASE)
_COMMA: Final = re.compile(r"[,，:：]")
_NEAR: Final = 60
_FAR: Final = 240
"""Characters that are looked at: no sentence that forbids is longer, and a hostile line may be."""

_ZH_AFTER: Final = (
    rf"(?:参数|字段|一律|都|也|从来|会)*(?:{_ZH_NO})|[^，,。|]{{0,10}}绑定|(?:会|已|都)?被(?:禁止|丢弃|忽略|拒绝|去掉)"
    r"|是(?:错|不对)"
)
_EN_AFTER: Final = (
    r"(?:\w+ ){0,2}?(?:(?:is|are|must|may|should|can|will|does|do|has|was|stands? in|appears? in) )?"
    rf"(?:{_EN_NO}|(?:bound|absent|wrong|invalid)\b)"
)
_AFTER: Final = re.compile(rf"[`*_\"'”’）)\]\s:：,，—–|-]*(?:{_ZH_AFTER}|{_EN_AFTER})", re.IGNORECASE)
_NOT_EMPTY: Final = re.compile(
    r"[^。.;；]{0,12}?(?:不能为空|不得为空|不为空|非空|不能缺|不可缺|不能少|不可少|不能省|不可省|不能没有|必填|\bempty\b|\bnull\b|\boptional\b|\bmissing\b|\bomitted\b)"
)


def forbids(before: str, after: str) -> bool:
    """Return whether a mention is a forbidden one.

    Args:
        before: the line up to the mention.
        after: the line from its end on.
    """
    return _forbidden_before(_last_sentence(before[-_FAR:])) or _forbidden_after(after[:_FAR])


def _last_sentence(before: str) -> str:
    start = max((end.end() for end in _SENTENCE_END.finditer(before)), default=0)
    return before[start:]


def _forbidden_before(clause: str) -> bool:
    return any(_governs(found, clause) for found in _NO.finditer(clause))


def _governs(found: re.Match[str], clause: str) -> bool:
    """Return whether a word of forbidding reaches the end of its sentence, where the mention stands."""
    between = clause[found.end() :]
    if len(between) > _NEAR or _UNDOES.search(between):
        return False
    if _FIRM.match(found[0]):
        return True
    return not _COMMA.search(between) and not _CONDITION.search(clause[: found.start()])


def _forbidden_after(after: str) -> bool:
    return bool(_AFTER.match(after)) and not _NOT_EMPTY.match(after)
