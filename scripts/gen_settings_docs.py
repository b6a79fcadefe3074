"""Writes docs/settings.md from the settings themselves. With --check it only tells whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import keep
from pydantic.fields import FieldInfo

from nomemory.server.settings.group import SettingsGroup
from nomemory.server.settings.settings import groups

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Every limit, default and timeout of the server, each an environment variable. This page is generated from
`server/nomemory/server/settings/` by `scripts/gen_settings_docs.py`.
"""
TABLE = """
| variable | default | what it is |
|---|---|---|
"""


def page() -> str:
    """Make the page."""
    return HEAD + "".join(_section(group) for group in groups().values())


def _section(group: type[SettingsGroup]) -> str:
    variables = group.variables()
    rows = "".join(_row(variables[name], field) for name, field in group.model_fields.items())
    return f"\n## {group.heading}\n{TABLE}{rows}"


def _row(variable: str, field: FieldInfo) -> str:
    default = "" if field.default is None else f"`{field.default}`"
    return f"| `{variable}` | {default} | {field.description} |\n"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
