"""English words that carry no content of their own: the index's list, and how two others differ from it."""

from __future__ import annotations

CLITICS = frozenset(["s", "t", "d", "m", "re", "ve", "ll"])
"""What may follow an apostrophe without being a word of its own."""

_FUNCTION_WORDS = """
a an the this that these those
i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself
she her hers herself it its itself they them their theirs themselves
am is are was were be been being have has had having do does did doing done
will would shall should can could may might must ought
and or but nor if then else because as until while although though so than too very just only
of at by for with about against between into through during before after above below to from up down
in out on off over under again further once here there when where why how what which who whom whose
all any both each few more most other another some such no not own same also ever
"""

_NEGATED = "ain aren couldn didn doesn hadn hasn haven isn mightn mustn needn shan shouldn wasn weren wouldn"

STOP_WORDS = frozenset(_FUNCTION_WORDS.split()) | frozenset(_NEGATED.split()) | CLITICS
"""Words that do not rank in the index, unless a query has nothing else. Normalised; the halves are not among them."""

HALVES = frozenset(["don", "won"])
"""What is the half of a contraction before 't, and a word of its own elsewhere."""

CONTRACTED = STOP_WORDS | HALVES
"""What makes a word without content when a clitic follows it: don't, what's, I'll."""

_OF_TALKING = """
get got know like many much please remember said say says still talk talked tell yet
"""

_COMPARED = """
actually already anything came can't come don't even go goes going known let lets likes lot made make now one prefer
really something tells thing things think thought told user want wants way went
"""

_NOT_COMPARED = """
ain hadn hasn haven herself himself itself mightn mustn needn ourselves shan theirs themselves yourselves
"""

COMPARISON_STOP_WORDS = (STOP_WORDS - frozenset(_NOT_COMPARED.split())).union(
    HALVES, _OF_TALKING.split(), _COMPARED.split()
)
"""Words that say nothing about a text's topic when two texts are compared. What somebody likes follows `like`."""

_ASKED_WITH = "kind last mention mentioned recall time type"

_NOT_ASKED_WITH = """
above ain although another because below done else few further hadn hasn haven herself himself itself mightn more
most mustn myself needn other ought ours ourselves own same shan shouldn some such theirs themselves though yourself
yourselves
"""

QUESTION_STOP_WORDS = (STOP_WORDS - frozenset(_NOT_ASKED_WITH.split())).union(
    HALVES, _OF_TALKING.split(), _ASKED_WITH.split()
)
"""Words that say how a question is asked, not what about."""
