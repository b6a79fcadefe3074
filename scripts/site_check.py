"""Check the built documentation site: python scripts/site_check.py FOLDER.

All links must have existing targets and anchors, the navigation must contain every page of docs/, and no page may load
resources from other hosts.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from usage import show_help

DOCS = Path(__file__).parent.parent / "docs"
EXTERNAL = ("http://", "https://", "//")
RESOURCE_ATTRIBUTES = {"script": "src", "img": "src", "iframe": "src", "link": "href"}


@dataclass
class HtmlPage(HTMLParser):
    """Anchors, links, navigation links and loaded resources of an HTML page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    navigation: set[str] = field(default_factory=set)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchors, links and resources of a tag."""
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag in RESOURCE_ATTRIBUTES and attributes.get("rel") != "canonical":
            self.loaded.append(attributes.get(RESOURCE_ATTRIBUTES[tag], ""))
        elif tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
            if "md-nav__link" in attributes.get("class", ""):
                self.navigation.add(attributes["href"].removeprefix("./"))


def read_pages(site: Path) -> dict[Path, HtmlPage]:
    """Parse every page of a site, except 404.html, whose links are relative to the root."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        if file.name != "404.html":
            pages[file] = HtmlPage()
            pages[file].feed(file.read_text(encoding="utf-8"))
    return pages


def is_broken(file: Path, link: str, pages: dict[Path, HtmlPage]) -> bool:
    """Return whether the target or the anchor of a link does not exist."""
    path, anchor = urldefrag(link)
    target = (file.parent / unquote(path)).resolve() if path else file
    if target.is_dir():
        target /= "index.html"
    if target not in pages:
        return not target.is_file()
    return bool(anchor) and unquote(anchor) not in pages[target].anchors | {"__top"}


def find_site_errors(site: Path) -> list[str]:
    """Return a message for each error in a site."""
    pages = read_pages(site)
    errors = []
    for file, page in pages.items():
        name = file.relative_to(site)
        errors += [f"{name}: loads {item} from another host" for item in page.loaded if item.startswith(EXTERNAL)]
        inner = [link for link in page.links if ":" not in link]
        errors += [f"{name}: broken link {link}" for link in inner if is_broken(file, link, pages)]
    listed = pages[site / "index.html"].navigation
    names = (f"docs/{page.stem}.html" for page in sorted(DOCS.glob("*.md")))
    errors += [f"{name} is missing from the navigation (website/mkdocs.yml)" for name in names if name not in listed]
    return errors


if __name__ == "__main__":
    show_help(__doc__)
    messages = find_site_errors(Path(sys.argv[1]).resolve())
    print("\n".join(messages), file=sys.stderr)
    sys.exit(bool(messages))
