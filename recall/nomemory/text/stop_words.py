"""English words that carry no content of their own: the index's list, and what people talk and ask with."""

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
get got know known let like likes many much please recall remember said say says still talk talked tell thing things
told yet
"""

CONVERSATIONAL_STOP_WORDS = STOP_WORDS | HALVES | frozenset(_OF_TALKING.split())
"""Words that say nothing about the topic of a text or of a question."""
