"""Tests for the table of methods in docs/clients.md."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from nomemory.client import AsyncClient, Client

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
TABLE = re.findall(r"^\| (`\w+\(.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ROWS = dict(re.findall(r"`(\w+)\(([^)]*)\)`", "".join(TABLE)))


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_the_table_lists_exactly_the_client_methods(client: type[Client | AsyncClient]) -> None:
    assert ROWS.keys() == {name for name in dir(client) if not name.startswith("_")}


@pytest.mark.parametrize(("name", "named"), ROWS.items())
def test_table_arguments_are_those_of_the_method(name: str, named: str) -> None:
    with Client("127.0.0.1:1") as client:
        takes = inspect.signature(getattr(client, name)).parameters.values()
    required = [take.name for take in takes if take.default is take.empty and take.kind is take.POSITIONAL_OR_KEYWORD]
    documented = [item for item in named.split(", ") if item]
    assert set(required) <= set(documented) <= {take.name for take in takes}
