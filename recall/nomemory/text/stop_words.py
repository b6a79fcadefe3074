"""English stop words for the index, and additional conversational stop words."""

from __future__ import annotations

CLITICS = frozenset(["s", "t", "d", "m", "re", "ve", "ll"])
"""Clitics that may follow an apostrophe."""

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
"""Normalized stop words of the index. Stop words affect the ranking only if a query has no other terms."""

CONTRACTION_HALVES = frozenset(["don", "won"])
"""First halves of contractions ("don't") that are also words."""

CONTRACTION_WORDS = STOP_WORDS | CONTRACTION_HALVES
"""Words that form a contraction without content words when combined with a clitic: don't, what's, I'll."""

_CONVERSATION_WORDS = """
get got know known let like likes many much please recall remember said say says still talk talked tell thing things
told yet
"""

CONVERSATIONAL_STOP_WORDS = STOP_WORDS | CONTRACTION_HALVES | frozenset(_CONVERSATION_WORDS.split())
"""Stop words for conversations: words that do not indicate the topic of a text or question."""
