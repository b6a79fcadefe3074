"""Collect the pages of the documentation site: python scripts/site_pages.py FOLDER.

Pages keep their paths in the repository, so links between them work unchanged. If a page links to another file, such as
an example, or to a folder, the site gets a page that shows the file or lists the folder. Images are copied. The landing
page replaces the README.
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
"""Colors and fonts that the site shares with the web pages of the server."""
FIRST = ["README.md", "README.zh.md", "SECURITY.md"]
LANDING = {"README.md": "website/landing.md"}
"""Files whose content replaces a page on the site. The landing page has no table of pages, because the site has a
navigation."""
IMAGE_SUFFIXES = {".svg", ".png"}
LANGUAGES = {".proto": "protobuf", ".py": "python", ".go": "go", ".mjs": "js", ".json": "json", ".toml": "toml"}
FENCED = re.compile(r"^(```+)[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def transform_prose(text: str, change: Callable[[str], str]) -> str:
    """Apply a function to a Markdown text, except to fenced code blocks."""
    result, end = "", 0
    for block in FENCED.finditer(text):
        result += change(text[end : block.start()]) + block.group()
        end = block.end()
    return result + change(text[end:])


def build_site_page_path(path: str) -> str:
    """Return the site path of the page that shows a repository path."""
    if path.endswith(".md") or Path(path).suffix in IMAGE_SUFFIXES:
        return path
    return f"{path}/index.md" if (ROOT / path).is_dir() else f"{path}.md"


def render_page(path: str, links: list[str]) -> str:
    """Return the Markdown of the page at a path, and append the paths of its links to `links`."""
    if (ROOT / path).is_dir():
        return render_folder_page(path, links)
    text = (ROOT / LANDING.get(path, path)).read_text(encoding="utf-8")
    if not path.endswith(".md"):
        return f"{NOT_SEARCHED}# {path}\n\n````{LANGUAGES.get(Path(path).suffix, 'text')}\n{text.rstrip()}\n````\n"
    return transform_prose(text, lambda prose: LINK.sub(lambda link: resolve_link(path, link, links), prose))


def render_folder_page(folder: str, links: list[str]) -> str:
    """Return the Markdown of a page that lists the files of a folder; append the files to `links`."""
    files = subprocess.run(  # noqa: S603 - a folder that a documentation page links to
        ["git", "ls-files", folder],  # noqa: S607 - the build requires git
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    links += files
    rows = (
        f"- [{posixpath.relpath(file, folder)}]({posixpath.relpath(build_site_page_path(file), folder)})\n"
        for file in files
    )
    return f"{NOT_SEARCHED}# {folder}\n\n{''.join(rows)}"


def resolve_link(page: str, link: re.Match[str], links: list[str]) -> str:
    """Return the site URL of a link in a page; append its repository path to `links`.

    Raises:
        SystemExit: the target does not exist.
    """
    target, anchor = link[1], link[2] or ""
    if ":" in target:
        return link.group()
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if not (ROOT / path).exists():
        raise SystemExit(f"{page}: broken link {target}")
    links.append(path)
    return posixpath.relpath(build_site_page_path(path), posixpath.dirname(page) or ".") + anchor


def generate_pages() -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each page and image, following links from `FIRST` and docs/."""
    pending = FIRST + sorted(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").glob("*.md"))
    seen: set[str] = set()
    while pending:
        path = pending.pop(0)
        if path not in seen:
            seen.add(path)
            is_image = Path(path).suffix in IMAGE_SUFFIXES
            yield (
                build_site_page_path(path),
                (ROOT / path).read_bytes() if is_image else render_page(path, pending).encode(),
            )


def main(folder: Path) -> None:
    """Write the pages, styles and builder configuration to a folder, replacing its contents."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in generate_pages():
        file = folder / "pages" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for asset in (ROOT / "website" / "style.css", THEME / "tokens.css", THEME / "mark.svg"):
        shutil.copy(asset, folder / "pages")
    shutil.copy(ROOT / "website" / "mkdocs.yml", folder)


if __name__ == "__main__":
    show_help(__doc__)
    main(Path(sys.argv[1]))
