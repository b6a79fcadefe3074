"""Generate docs/settings.md from the settings. With --check, only report whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check_page
from pydantic.fields import FieldInfo
from usage import show_help

from nomemory.server.runtime.settings.group import SettingsGroup
from nomemory.server.runtime.settings.settings import list_settings_groups

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

HEAD = """# Settings

Each setting is an environment variable. Defaults are shown in parentheses.
`scripts/gen_settings_docs.py` generates this page.
"""


def render_page() -> str:
    """Render docs/settings.md."""
    return HEAD + "".join(_render_section(group) for group in list_settings_groups().values())


def _render_section(group: type[SettingsGroup]) -> str:
    rows = "".join(
        _render_row(variable, group.model_fields[name]) for name, variable in group.map_variables_by_field().items()
    )
    return f"\n## {group.heading}\n\n{rows}" if rows else ""


def _render_row(variable: str, field: FieldInfo) -> str:
    default = "" if field.default in (None, "") else f" (`{field.default}`)"
    return f"- `{variable}`{default}: {field.description}\n"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(write_or_check_page(PAGE, render_page()))
