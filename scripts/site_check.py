"""Checks the site that was built: python scripts/site_check.py FOLDER.

Every link leads to a page and an anchor that exist, every page of docs/ is in the navigation, nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from usage import show_help

DOCS = Path(__file__).parent.parent / "docs"
ELSEWHERE = ("http://", "https://", "//")
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


@dataclass
class Page(HTMLParser):
    """What a page has: its anchors, its links, those of the navigation among them, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    navigation: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag says."""
        said = {name: value or "" for name, value in attrs}
        self.anchors |= {said[name] for name in ("id", "name") if name in said}
        if tag in LOADED and said.get("rel") != "canonical":
            self.loaded.append(said.get(LOADED[tag], ""))
        elif tag == "a" and "href" in said:
            self.links.append(said["href"])
            if "md-nav__link" in said.get("class", ""):
                self.navigation.add(said["href"].removeprefix("./"))


def read(site: Path) -> dict[Path, Page]:
    """Read every page of a site but the one for pages that are missing, which has links from the root."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        if file.name != "404.html":
            pages[file] = Page()
            pages[file].feed(file.read_text(encoding="utf-8"))
    return pages


def dead(file: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Return whether a link of a page leads nowhere."""
    path, anchor = urldefrag(link)
    target = (file.parent / unquote(path)).resolve() if path else file
    if target.is_dir():
        target /= "index.html"
    if target not in pages:
        return not target.is_file()
    return bool(anchor) and unquote(anchor) not in pages[target].anchors | {"__top"}


def faults(site: Path) -> list[str]:
    """Return what is wrong with a site, in sentences."""
    pages = read(site)
    found = []
    for file, page in pages.items():
        name = file.relative_to(site)
        found += [f"{name}: loads {item}" for item in page.loaded if item.startswith(ELSEWHERE)]
        inner = [link for link in page.links if ":" not in link]
        found += [f"{name}: {link} leads nowhere" for link in inner if dead(file, link, pages)]
    listed = pages[site / "index.html"].navigation
    names = (f"docs/{page.stem}.html" for page in sorted(DOCS.glob("*.md")))
    found += [f"{name} is not in the navigation (website/mkdocs.yml)" for name in names if name not in listed]
    return found


if __name__ == "__main__":
    show_help(__doc__)
    wrong = faults(Path(sys.argv[1]).resolve())
    print("\n".join(wrong), file=sys.stderr)
    sys.exit(bool(wrong))
