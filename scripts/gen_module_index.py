"""Write the module index of ARCHITECTURE.md from the docstrings of the modules.

With --check, only report whether the index is up to date.
"""

from __future__ import annotations

import ast
import sys
from itertools import groupby
from pathlib import Path

from usage import show_help

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
START, END = "<!-- module index: scripts/gen_module_index.py -->\n", "<!-- end of module index -->\n"


def render_module_index() -> str:
    """Return a table of modules for each folder of `server/` and `recall/`."""
    files = sorted(
        (path for part in ("recall", "server") for path in (ROOT / part / "nomemory").rglob("*.py")),
        key=lambda path: (path.parent.as_posix(), path.name),
    )
    tables = []
    for folder, modules in groupby(files, key=lambda path: path.parent):
        rows = [f"| `{path.stem}` | {_read_first_sentence(path)} |" for path in modules]
        name = folder.relative_to(ROOT).as_posix()
        tables.append("\n".join([f"**`{name}/`**", "", "| module | subject |", "|---|---|", *rows]))
    return "\n" + "\n\n".join(tables) + "\n\n"


def _read_first_sentence(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".").replace("|", "\\|")


def main() -> int:
    """Write the index, or compare it with the page; return the exit status."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    expected = before + START + render_module_index() + END + after
    if "--check" in sys.argv[1:]:
        if page != expected:
            sys.stderr.write("ARCHITECTURE.md: the module index is out of date: run scripts/gen_module_index.py\n")
        return int(page != expected)
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
