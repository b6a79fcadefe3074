"""How a clause says what it says: whether it states, asks, supposes or orders, and about whom."""

from __future__ import annotations

from dataclasses import dataclass

import regex  # type: ignore[import-untyped]  # it ships without types

from nomemory.text.normalisation import plain
from nomemory.text.sentences import Sentence
from nomemory.text.terms import word_set

SELF = ""
"""The subject of a clause that the speaker says about themselves, or about nobody in particular."""

UNNAMED = "?"
"""The subject of a clause about somebody whom only a pronoun names."""

_ASKS = regex.compile(
    r"[吗么]$|^(?:请问|问下|顺便问下|想问)|(?:是不是|能不能|会不会|要不要|可不可以|为什么|怎么办)"
    r"|^(?:what|which|who|whose|where|when|why|how|is|are|am|do|does|did|can|could|should|would|will|have|has)\b"
    r"(?!.*\bi (?:like|prefer)\b)"
)
_ORDERS = regex.compile(
    r"^(?:帮我|给我|替我|教我|把|请|告诉我|help me|give me|tell me|show me|compare|write|list"
    r"|check|summari[sz]e|explain|remind me|please)\b?"
)
_STANDING = regex.compile(
    r"以后|今后|从今|每次|一律|总是|都按|\bfrom now on\b|\balways\b|\bin future\b|\bevery time\b"
    r"|\bfor\b.{0,80}\bplease\b"
)
_SUPPOSES = regex.compile(
    r"^(?:但是|不过|可是)?(?:如果|要是|假如|假设|万一|倘若|哪天|真希望|希望)|的话$"
    r"|^(?:but |and |so )?(?:if|suppose|imagine|unless|maybe|perhaps)\b|\bi wish\b"
    r"|\bwonder(?:ed|ing)? (?:about|if|whether)\b|\bwhat if\b|\bmight be\b|\bprobably won't\b"
)
_KIN = (
    "妈妈|爸爸|妈|爸|弟弟|哥哥|姐姐|妹妹|弟|哥|姐|妹|奶奶|爷爷|外婆|外公|老公|老婆|男朋友|女朋友"
    "|对象|儿子|女儿|朋友|同事|老板|室友|邻居|同学"
)
_MAY_FOLLOW = "(?=[说想要爱喜讨觉不也都很在是有会能吃喝给问让的还肯就从])"
_NICKNAME = r"(?:小(?![学时孩区说心吃组猫狗店])|老(?![家板师是样实早婆公])|阿(?!姨))\p{Han}" + _MAY_FOLLOW
_NAME = (
    r"(?![我你这那哪其一从平最特非真还不比今明昨现以因所但而或很也都就如要想有没每当另对在是只自挺])\p{Han}{2,3}"
    r"(?=(?:也|都|很|最|从小|一直)?(?:喜欢|讨厌|爱吃|爱喝|不吃|不喝|说(?!到|起|过)|觉得|认为))"
)
_HAN_SUBJECT = regex.compile(
    r"^(?:但是|不过|而且|因为|所以|听说|后来|今天|昨天|没想到)?"
    rf"(?P<who>我们?(?:的)?(?:{_KIN})|(?:{_KIN}){_MAY_FOLLOW}|[他她它]们?|别人|大家|有人|人家|医生"
    rf"|{_NICKNAME}|{_NAME})"
)
_PERSON_VERB = (
    r"(?:says?|said|thinks?|thought|likes?|loves?|hates?|wants?|wanted|eats?|drinks?|has|had"
    r"|lives?|works?|worked|prefers?|(?:is|was)(?! (?:off|on|over|in|at|cancelled|called|closed"
    r"|far|great))"
    r"|can't|can|cannot|doesn't|didn't|will|would|never|needs?|agreed|asked|told|took|made"
    r"|gave|got|went|moved|hugged|wrote)"
)
_ENGLISH_KIN = (
    r"(?:mum|mom|mother|dad|father|parents|brother|sister|son|daughter|kids?|wife|husband|partner|girlfriend|boyfriend"
    r"|friends?|colleagues?|boss|manager|gran\w*|uncle|aunt|cousin|nephew|niece|flatmate|roommate|neighbou?r|cat|dog)"
)
_ENGLISH_SUBJECT = regex.compile(
    r"^(?:but |and |so |because |then |also |for the record )?"
    rf"(?:(?P<pronoun>(?:he|she|they|her|his|their)(?:'\w+)?)\b"
    rf"|my (?:\w+ )?(?P<kin>{_ENGLISH_KIN})(?: \w+)?(?:'s)? {_PERSON_VERB}\b)"
)
_IMPERSONAL = regex.compile(r"^(?:but |and |so )?they\b.*\b(?:my|me|us|our)\b")
_NAMED_SUBJECT = regex.compile(
    rf"^(?:(?:But|And|So|Because|Then) )?(?P<name>\p{{Lu}}\p{{Ll}}+)(?: {_PERSON_VERB}\b|'d\b)"
)
_SELF_WORD = regex.compile(r"我|\b(?:i|my|me|we|our)\b")
_NOT_NAMES = word_set(
    """
    it this that there here we you everything nothing what he she they everybody everyone somebody nobody work life
    """
)


@dataclass(frozen=True, slots=True)
class Voice:
    """How a clause says what it says.

    Attributes:
        subject: SELF, UNNAMED, or who it is about, as the clause names them, plain.
        asks: it is a question.
        supposes: it is a supposition or a wish, or follows from one.
        orders: it asks for something to be done now.
    """

    subject: str = SELF
    asks: bool = False
    supposes: bool = False
    orders: bool = False

    @property
    def states(self) -> bool:
        """Return whether the clause says that something is so."""
        return not (self.asks or self.supposes or self.orders)


def voices(sentence: Sentence) -> list[Voice]:
    """Return the voice of each clause. A subject and a supposition last until the clause that changes them."""
    asks = any(mark in sentence.mark for mark in "?？")
    found: list[Voice] = []
    subject, supposes = SELF, False
    for clause in sentence.clauses:
        text = plain(clause.masked)
        subject = _subject(clause.masked, text, subject)
        supposes = supposes or bool(_SUPPOSES.search(text))
        orders = bool(_ORDERS.search(text)) and not _STANDING.search(text)
        found.append(Voice(subject, asks or bool(_ASKS.search(text)), supposes, orders))
        supposes = supposes and not clause.closes_with_colon
    return found


def _subject(masked: str, text: str, before: str) -> str:
    """Return whom a clause is about; without a subject of its own, whom the clause before was about."""
    if match := _HAN_SUBJECT.search(text):
        return UNNAMED if match["who"][0] in "他她它" else match["who"].lstrip("我们的")
    if match := _ENGLISH_SUBJECT.search(text):
        if _IMPERSONAL.search(text):
            return SELF
        return UNNAMED if match["pronoun"] else match["kin"]
    if (match := _NAMED_SUBJECT.search(masked)) and match["name"].lower() not in _NOT_NAMES:
        return str(match["name"]).lower()
    return SELF if _speaks_of_self(text) else before


def _speaks_of_self(text: str) -> bool:
    return bool(_SELF_WORD.search(text))
