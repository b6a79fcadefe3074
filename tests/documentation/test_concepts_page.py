"""Tests for the program in docs/concepts.md and its output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from documentation.blocks import of_page

if TYPE_CHECKING:
    from running_server import Server

PAGE = "docs/concepts.md"


def test_documented_correction_prints_the_output_on_the_page(
    vector_server: Server, user: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,), (shown,) = of_page(PAGE, "python"), of_page(PAGE, "")
    here = program.text.replace("127.0.0.1:7700", vector_server.target).replace('"ann"', f'"{user}"')
    exec(here, {})  # noqa: S102 - the page's own program
    assert capsys.readouterr().out == shown.text
