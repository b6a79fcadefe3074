"""Gathers the pages of the site: python scripts/site_pages.py FOLDER.

The pages keep their places in the repository, so links between them stay as they are. A link may also lead to a file
that is no page, such as an example, or to a folder: these become pages, which show the file or list the folder.
A picture stays a picture. Where the repository has its README, the site has a landing page.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from usage import show_help

ROOT = Path(__file__).parent.parent
THEME = ROOT / "server" / "nomemory" / "server" / "api" / "http" / "static" / "theme"
"""Colours and type, which the site has in common with the server's own pages."""
FIRST = ["README.md", "README.zh.md", "SECURITY.md"]
LANDING = {"README.md": "website/landing.md"}
"""What stands in a page's place. The README's table is the site's navigation, so the site needs no README."""
PICTURES = {".svg", ".png"}
LANGUAGES = {".proto": "protobuf", ".py": "python", ".go": "go", ".mjs": "js", ".json": "json", ".toml": "toml"}
FENCED = re.compile(r"^(```+)[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def outside_of_fences(text: str, change: Callable[[str], str]) -> str:
    """Return a page with its text changed, but not its blocks of code."""
    made, end = "", 0
    for block in FENCED.finditer(text):
        made += change(text[end : block.start()]) + block.group()
        end = block.end()
    return made + change(text[end:])


def page_of(path: str) -> str:
    """Return the page that shows a path of the repository."""
    if path.endswith(".md") or Path(path).suffix in PICTURES:
        return path
    return f"{path}/index.md" if (ROOT / path).is_dir() else f"{path}.md"


def shown(path: str, links: list[str]) -> str:
    """Return the page of a path, and add the paths that it links to."""
    if (ROOT / path).is_dir():
        return listing(path, links)
    text = (ROOT / LANDING.get(path, path)).read_text(encoding="utf-8")
    if not path.endswith(".md"):
        return f"{NOT_SEARCHED}# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n````\n"
    return outside_of_fences(text, lambda part: LINK.sub(lambda link: led(path, link, links), part))


def listing(folder: str, links: list[str]) -> str:
    """Return a page with the files of a folder."""
    files = subprocess.run(  # noqa: S603 - the folder is one that a page of ours links to
        ["git", "ls-files", folder],  # noqa: S607 - whoever builds has git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    links += files
    rows = (f"- [{posixpath.relpath(file, folder)}]({posixpath.relpath(page_of(file), folder)})\n" for file in files)
    return f"{NOT_SEARCHED}# {folder}\n\n{''.join(rows)}"


def led(page: str, link: re.Match[str], links: list[str]) -> str:
    """Return where a link of a page leads on the site, and add its path in the repository."""
    target, anchor = link[1], link[2] or ""
    if ":" in target:
        return link.group()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if not (ROOT / path).exists():
        raise SystemExit(f"{page}: there is no {target}")
    links.append(path)
    return posixpath.relpath(page_of(path), posixpath.dirname(page) or ".") + anchor


def pages() -> Iterator[tuple[str, bytes]]:
    """Return name and content of every page and picture: the first ones, docs/, and whatever these lead to."""
    waiting = FIRST + sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").glob("*.md"))
    seen: set[str] = set()
    while waiting:
        path = waiting.pop(0)
        if path not in seen:
            seen.add(path)
            is_picture = Path(path).suffix in PICTURES
            yield page_of(path), (ROOT / path).read_bytes() if is_picture else shown(path, waiting).encode()


def main(folder: Path) -> None:
    """Write the pages, in place of those of the time before, and beside them what the builder is told."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in pages():
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for part in (ROOT / "website" / "style.css", THEME / "tokens.css", THEME / "mark.svg"):
        shutil.copy(part, folder / "pages")
    shutil.copy(ROOT / "website" / "mkdocs.yml", folder)


if __name__ == "__main__":
    show_help(__doc__)
    main(Path(sys.argv[1]))
