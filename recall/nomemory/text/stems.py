"""Stem English words with the Snowball algorithm, after replacing irregular forms."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import Stemmer


class _Stemmers(threading.local):
    """Thread-local stemmers, because a stemmer is not thread-safe."""

    def __init__(self) -> None:
        self.english = Stemmer.Stemmer("english")


_stemmers = _Stemmers()


_IRREGULAR_FORMS = """
arise arose arisen | awake awoke awoken | become became | begin began begun | bend bent | bind bound
bite bit bitten | bleed bled | blow blew blown | break broke broken | breed bred | bring brought | build built
burn burnt | buy bought | catch caught | choose chose chosen | cling clung | come came | creep crept | deal dealt
dig dug | draw drew drawn | dream dreamt | drink drank drunk | drive drove driven | eat ate eaten | fall fell fallen
feed fed | feel felt | fight fought | find found | flee fled | fling flung | fly flew flown | forbid forbade forbidden
forget forgot forgotten | forgive forgave forgiven | freeze froze frozen | get got gotten | give gave given
go went gone | grow grew grown | hang hung | hear heard | hide hid hidden | hold held | keep kept | kneel knelt
know knew known | lay laid | lead led | lean leant | leap leapt | learn learnt | leave left | lend lent | light lit
lose lost | make made | mean meant | meet met | mistake mistook mistaken | overcome overcame
oversleep overslept | pay paid | prove proven | rebuild rebuilt | ride rode ridden | ring rang rung | rise risen
run ran | say said | see saw seen | seek sought | sell sold | send sent | sew sewn | shake shook shaken | shine shone
shoot shot | show shown | shrink shrank shrunk | sing sang sung | sink sank sunk | sit sat | sleep slept | slide slid
smell smelt | speak spoke spoken | speed sped | spell spelt | spend spent | spill spilt | spin spun | spit spat
spoil spoilt | spring sprang sprung | stand stood | steal stole stolen | stick stuck | sting stung | stink stank stunk
stride strode | strike struck | strive strove | swear swore sworn | sweep swept | swell swollen | swim swam swum
swing swung | take took taken | teach taught | tear tore torn | tell told | think thought | throw threw thrown
undergo underwent undergone | understand understood | undertake undertook undertaken | undo undid undone
wake woke woken | wear wore worn | weave wove woven | weep wept | win won | withdraw withdrew withdrawn
write wrote written
child children | man men | woman women | person people | foot feet | tooth teeth | goose geese | mouse mice
wife wives | knife knives | shelf shelves | wolf wolves | half halves | loaf loaves | thief thieves | calf calves
scarf scarves | grandchild grandchildren | policeman policemen | fireman firemen | salesman salesmen
"""
"""Irregular words: the base, then its inflected forms.

Ambiguous forms (rose, lives, leaves, wound) and forms of stop-word verbs are omitted.
"""


_IRREGULAR_WORDS = [entry.split() for entry in _IRREGULAR_FORMS.strip().replace("\n", "|").split("|")]


IRREGULAR_BASES = {form: base for base, *forms in _IRREGULAR_WORDS for form in forms}
"""The base of each irregular form."""


def stem_words(words: Sequence[str]) -> list[str]:
    """Return the stems of lower-case words. Most words of other languages stay unchanged."""
    stemmed: list[str] = _stemmers.english.stemWords([IRREGULAR_BASES.get(word, word) for word in words])
    return stemmed


def stem_word(word: str) -> str:
    """Return the stem of a lower-case English word."""
    return stem_words([word])[0]
