"""Malformed JSON, derived from valid JSON."""

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
_KEYS_OF_USERS = (b"user_id", b"userId", rb"user\u005fid", rb"\u0075ser_id", b"USER_ID", rb"user_id\u0000")
_DEPTHS = (50, 199, 200, 201, 5_000, 100_000)
_ITEMS = (10, 1_000, 120_000)
_KEYS = (10, 2_000, 50_000)

Mutation = Callable[[bytes, random.Random, str], bytes]


def malformed_json(valid: bytes, chance: random.Random, victim: str) -> bytes:
    """Return a body that is malformed in one way or names a victim a second time."""
    return chance.choice(_MUTATIONS)(valid, chance, victim)


def _truncated(valid: bytes, chance: random.Random, _victim: str) -> bytes:
    return valid[: chance.randrange(len(valid) + 1)]


def _damaged(valid: bytes, chance: random.Random, _victim: str) -> bytes:
    damaged = bytearray(valid)
    for _ in range(chance.randint(1, 8)):
        if damaged:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def _with_second_user(valid: bytes, chance: random.Random, victim: str) -> bytes:
    """Add a second user field with another spelling of the key, first or last."""
    entry = b'"%b": "%b"' % (chance.choice(_KEYS_OF_USERS), victim.encode())
    if valid == b"{}":
        return b"{" + entry + b", " + entry + b"}"
    if chance.random() < 0.5:
        return valid.replace(b"{", b"{" + entry + b", ", 1)
    return (b", " + entry + b"}").join(valid.rsplit(b"}", 1))


def _with_other_value(valid: bytes, chance: random.Random, _victim: str) -> bytes:
    """Replace the value of a field."""
    value = chance.choice((*_NUMBERS, *_STRINGS, *_VALUES))
    colons = [at for at in range(len(valid)) if valid[at : at + 1] == b":"]
    if not colons:
        return value
    start = chance.choice(colons) + 1
    ends = [end for end in (valid.find(sign, start) for sign in (b",", b"}", b"]")) if end >= 0]
    return valid[:start] + value + valid[min(ends, default=len(valid)) :]


def _deep(_valid: bytes, chance: random.Random, _victim: str) -> bytes:
    depth = chance.choice(_DEPTHS)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"filter":', b"}"), (b'{"a":[', b"]}")))
    return opening * depth + b"1" + closing * (depth if chance.random() < 0.5 else 0)


def _long_list(_valid: bytes, chance: random.Random, _victim: str) -> bytes:
    value = chance.choice((b"0", b"{}", b"[]", b'""', b"null", b'{"ts":1}'))
    field = chance.choice((b"messages", b"message_ids", b"values", b"user_id"))
    return b'{"%b": [' % field + (value + b",") * chance.choice(_ITEMS) + value + b"]}"


def _many_keys(_valid: bytes, chance: random.Random, _victim: str) -> bytes:
    return b'{"filter": {"metadata": {' + b",".join(b'"k%d": "v"' % n for n in range(chance.choice(_KEYS))) + b"}}}"


def _wrapped(valid: bytes, chance: random.Random, _victim: str) -> bytes:
    """Encode the body differently, or surround it with other bytes."""
    forms = (
        b"\xef\xbb\xbf" + valid,
        valid.decode("utf-8", "replace").encode("utf-16"),
        valid + b" " + valid,
        b"[" + valid + b"]",
        gzip.compress(valid),
        b"\0" + len(valid).to_bytes(4, "big") + valid,
        b"\x01\xff\xff\xff\xff" + valid,
    )
    return chance.choice(forms)


_MUTATIONS: Sequence[Mutation] = (
    *(_truncated, _damaged, _damaged, _with_second_user, _with_second_user),
    *(_with_other_value, _with_other_value, _with_other_value),
    *(_deep, _long_list, _many_keys, _wrapped),
)
