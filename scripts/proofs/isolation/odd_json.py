"""JSON that a parser may stumble over, made of JSON that it would not."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Sequence

_NUMBERS = (
    b"1e400", b"-1e400", b"1" * 400, b"0x10", b"01", b"+1", b".5", b"1.", b"NaN", b"-Infinity", b"-0", b"1e-400",
    b"9007199254740993",
)  # fmt: skip
_STRINGS = (
    rb'"\ud800"', rb'"\udc00\ud800"', rb'"\u0000"', b'"\x00"', b'"\xff\xfe"', b'"\xed\xa0\x80"', rb'"\x41"', b'"\n"',
    rb'"\uD83D"', b'"\xf4\x90\x80\x80"', b"'single'", b'"' + rb"\u0061" * 5000 + b'"', b'"unfinished',
)  # fmt: skip
_VALUES = (b"null", b"true", b"[]", b"{}", b"[[]]", b'[{"a":1}]', b"undefined", b"//x", b"/**/1", b"")
_DEPTHS = (50, 199, 200, 201, 5_000, 100_000)
_MANY = 120_000

Change = Callable[[bytes, random.Random, str], bytes]


def odd_json(sound: bytes, chance: random.Random, victim: str) -> bytes:
    """Return a body that is odd in one way. `victim`: whom it names, where it names somebody."""
    return chance.choice(_CHANGES)(sound, chance, victim)


def _cut(sound: bytes, chance: random.Random, _victim: str) -> bytes:
    return sound[: chance.randrange(len(sound) + 1)]


def _damaged(sound: bytes, chance: random.Random, _victim: str) -> bytes:
    damaged = bytearray(sound)
    for _ in range(chance.randint(1, 8)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def _named_again(sound: bytes, chance: random.Random, victim: str) -> bytes:
    """Name a user once more, in another spelling, before or behind the rest."""
    key = chance.choice((rb"user_id", rb"userId", rb"user\u005fid", rb"\u0075ser_id", rb"USER_ID", rb"user_id\u0000"))
    named = b'"%b": "%b"' % (key, victim.encode())
    if sound == b"{}":
        return b"{" + named + b", " + named + b"}"
    if chance.random() < 0.5:  # noqa: PLR2004 - as often as not
        return sound.replace(b"{", b"{" + named + b", ", 1)
    return (b", " + named + b"}").join(sound.rsplit(b"}", 1))


def _other_value(sound: bytes, chance: random.Random, _victim: str) -> bytes:
    """Put an odd value where one of the others stands."""
    places = [place for place in range(len(sound)) if sound[place : place + 1] == b":"]
    if not places:
        return chance.choice((*_NUMBERS, *_STRINGS, *_VALUES))
    start = chance.choice(places) + 1
    ends = [end for end in (sound.find(sign, start) for sign in (b",", b"}", b"]")) if end >= 0]
    value = chance.choice((*_NUMBERS, *_STRINGS, *_VALUES))
    return sound[:start] + value + sound[min(ends, default=len(sound)) :]


def _deep(_sound: bytes, chance: random.Random, _victim: str) -> bytes:
    depth = chance.choice(_DEPTHS)
    opened, closed = chance.choice(((b"[", b"]"), (b'{"filter":', b"}"), (b'{"a":[', b"]}")))
    return opened * depth + b"1" + closed * (depth if chance.random() < 0.5 else 0)  # noqa: PLR2004 - or never closed


def _many(_sound: bytes, chance: random.Random, _victim: str) -> bytes:
    value = chance.choice((b"0", b"{}", b"[]", b'""', b"null", b'{"ts":1}'))
    field = chance.choice((b"messages", b"message_ids", b"values", b"user_id"))
    return b'{"%b": [' % field + (value + b",") * chance.choice((10, 1_000, _MANY)) + value + b"]}"


def _many_keys(_sound: bytes, chance: random.Random, _victim: str) -> bytes:
    size = chance.choice((10, 2_000, 50_000))
    return b'{"filter": {"metadata": {' + b",".join(b'"k%d": "v"' % n for n in range(size)) + b"}}}"


def _wrapped(sound: bytes, chance: random.Random, _victim: str) -> bytes:
    """Put something around the whole that does not belong there, or write it in other bytes."""
    forms = (
        b"\xef\xbb\xbf" + sound,
        sound.decode("utf-8", "replace").encode("utf-16"),
        sound + b" " + sound,
        b"[" + sound + b"]",
        gzip.compress(sound),
        b"\0" + len(sound).to_bytes(4, "big") + sound,
        b"\x01\xff\xff\xff\xff" + sound,
    )
    return chance.choice(forms)


_CHANGES: Sequence[Change] = (
    *(_cut, _damaged, _damaged, _named_again, _named_again, _other_value, _other_value, _other_value),
    *(_deep, _many, _many_keys, _wrapped),
)
