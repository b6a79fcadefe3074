"""Tests that a rule assigns a test to every code block on the pages (rules.py)."""

from __future__ import annotations

import re

from documentation.blocks import ROOT, blocks
from documentation.rules import RULES


def test_every_block_has_a_rule() -> None:
    stray = [block for block in blocks() if not any(rule.fits(block) for rule in RULES)]
    assert stray == [], "add a rule to tests/documentation/rules.py with the test of this block, or the reason for none"


def test_every_rule_has_a_block() -> None:
    used = {next(rule for rule in RULES if rule.fits(block)) for block in blocks()}
    assert [rule for rule in RULES if rule not in used] == []


def test_every_test_that_a_rule_names_exists() -> None:
    for path, _, name in {tuple(rule.test.partition("::")) for rule in RULES}:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name
