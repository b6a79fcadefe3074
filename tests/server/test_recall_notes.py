"""Tests that every note of a recall has a code."""

from __future__ import annotations

from nomemory.recall.model.note import NoteKind
from nomemory.v1 import recall_service_pb2 as r


def test_every_kind_of_note_has_its_code_in_the_contract() -> None:
    codes = {name.removeprefix("NOTE_CODE_") for name in r.NoteCode.keys()}  # noqa: SIM118 - no mapping
    assert codes == {kind.name for kind in NoteKind} | {"UNSPECIFIED"}
