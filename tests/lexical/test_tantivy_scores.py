"""What Tantivy has to compute with exactly."""

from __future__ import annotations

from nomemory.server.lexical.form import FORMS, form_of, worth
from nomemory.server.lexical.tantivy.query import score_of, worth_of


def test_forms_are_ordered_and_worth_what_the_engine_can_tell_exactly() -> None:
    assert [form_of("a", terms) for terms in (0, 7, 8, 23, 24, 71, 72, 10**6)] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [form_of("a?", terms) for terms in (0, 72)] == [2, 5]
    assert [worth(form) * 16 for form in FORMS] == [16, 15, 14, 13, 12, 11]
    assert all(worth_of(form) > 0 for form in FORMS)
    assert score_of(2 * worth(3) * (1 + 1 / 64) * (1 + 1e-6)) == worth(3) * (1 + 1 / 64)
