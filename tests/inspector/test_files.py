"""The files of the inspector: disabled by default, served with a strict content security policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from web.http_server import settings_of
from web.raw_http import answered, request

from nomemory.inspector.gateway import READ_METHODS
from nomemory.server.api.http import static_pages
from nomemory.server.api.http.http_rules import find_method_descriptors, get_http_rule
from nomemory.server.runtime.listen_address import ListenAddressError, get_http_address
from nomemory.server.runtime.settings import Settings
from running_server import started

if TYPE_CHECKING:
    from inspector.inspector_page import Inspected

FOLDER = Path(static_pages.__file__).parent / "static" / "inspector"
THEME = FOLDER.with_name("theme")
FILES = sorted(
    file.relative_to(item).as_posix() for item in (FOLDER, THEME) for file in item.rglob("*") if file.is_file()
)
SCRIPTS = [file for file in FILES if file.endswith(".js")]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with httpx.Client() as client:
        yield client


def text(name: str) -> str:
    return ((THEME if (THEME / name).exists() else FOLDER) / name).read_text("utf-8")


def test_inspector_is_disabled_by_default() -> None:
    assert not Settings.from_environment().http.inspector


def test_inspector_enables_http_on_loopback() -> None:
    assert get_http_address(Settings.from_environment()) == ""
    assert get_http_address(Settings.from_environment(inspector=True)) == "127.0.0.1:7701"
    assert get_http_address(Settings.from_environment(inspector=True, http_listen="127.0.0.1:0")) == "127.0.0.1:0"


def test_files_are_served_with_security_headers(inspected: Inspected, client: httpx.Client) -> None:
    for name in ["", *FILES]:
        answer = client.get(inspected.url + name)
        assert answer.status_code == 200, name
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        for part in ("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "trusted-types 'none'"):
            assert part in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in answer.headers


def test_inspector_explorer_and_site_share_the_theme(inspected: Inspected, client: httpx.Client) -> None:
    for name in ("tokens.css", "elements.css", "mark.svg"):
        assert client.get(inspected.url + name).content == client.get(f"{inspected.server.http}/{name}").content
        for page in (inspected.url, f"{inspected.server.http}/"):
            assert f'href="{name}"' in client.get(page).text
    website = Path(__file__).parents[2] / "website"
    assert "[tokens.css, style.css]" in (website / "mkdocs.yml").read_text("utf-8")
    styles = [file for folder in (FOLDER.parent, website) for file in folder.rglob("*.css")]
    page_styles = [file.read_text("utf-8") for file in styles if file.name != "tokens.css"]
    assert not [
        style for style in page_styles if re.search(r"#[0-9a-fA-F]{3,8}\b(?!\[)(?=[;,) ])", style)
    ]  # colors are defined in one file


def test_other_files_are_not_served(inspected: Inspected) -> None:
    for path in (
        "/inspect/../site.py",
        "/inspect/%2e%2e/site.py",
        "/inspect/strings",
        "/inspect//main.js",
        "/inspect/x",
    ):
        reply = answered(inspected.server.http, request(f"GET {path}"))
        assert reply.startswith(b"HTTP/1.1 404 "), path


def test_url_without_trailing_slash_redirects(inspected: Inspected, client: httpx.Client) -> None:
    answer = client.get(inspected.url.rstrip("/"))
    assert (answer.status_code, answer.headers["location"]) == (308, "/inspect/")


def test_other_host_names_and_origins_are_rejected(inspected: Inspected, client: httpx.Client) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        assert client.get(inspected.url, headers=headers).status_code == 403


def test_server_without_credentials_requires_loopback_for_inspector(tmp_path: Path) -> None:
    with pytest.raises(ListenAddressError), started(settings_of(tmp_path, http_listen="0.0.0.0:0", inspector=True)):
        pass


def test_page_has_no_inline_script_or_style() -> None:
    assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]* src=)", text("index.html"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_do_not_insert_html(name: str) -> None:
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|setHTML"
    assert not re.search(rf"{ways}|\beval\(|new Function|javascript:", text(name))


@pytest.mark.parametrize("name", FILES)
def test_files_have_no_external_urls(name: str) -> None:
    assert not re.search(r"(https?:)?//[a-z]", text(name).replace("http://www.w3.org/2000/svg", "")), name


def test_only_read_methods_are_called() -> None:
    called = set(re.findall(r'(get|send\("POST"|post)(?:\(|, )"(v1/[^"]+)"', text("contract.js")))
    rules = [get_http_rule(method) for method in find_method_descriptors(READ_METHODS)]
    reading = {("get" if rule.verb == "GET" else "post", rule.template.replace("user_id", "userId")) for rule in rules}
    assert {("get" if verb == "get" else "post", f"/{path}") for verb, path in called} == reading
    others = [name for name in SCRIPTS if name != "contract.js"]
    assert not [name for name in others if re.search(r"\bfetch\(|XMLHttpRequest|sendBeacon|WebSocket", text(name))]


def words(language: str) -> set[str]:
    return set(re.findall(r'^  "?([\w.]+)"?: ["{]', text(f"strings/{language}.js"), re.MULTILINE))


def test_english_strings_with_a_count_have_a_singular() -> None:
    uncounted = r"(?:More than|First|Step|message) \{n\}|\{n\} [KMG]iB"
    plain = re.findall(r'^  "?([\w.-]+)"?: "(.*\{n\} [a-zA-Z].*)",$', text("strings/en.js"), re.MULTILINE)
    assert not [name for name, string in plain if not re.search(uncounted, string)]
    forms = re.findall(r'one: "(.*?)",\s*other: "(.*?)"', text("strings/en.js"))
    assert len(forms) > 20
    assert not [singular for singular, plural in forms if singular == plural or re.search(r"\{n\} \w+s\b", singular)]


def test_score_groups_have_strings_and_colors() -> None:
    groups = re.findall(r"^  (\w+): \[", text("score_bar.js"), re.MULTILINE)
    assert len(groups) == 4
    for group in [*groups, "penalty"]:
        assert {f"group.{group}", f"group.{group}.about"} <= words("en")
        assert f"--c-{group}:" in text("tokens.css")
        assert f".c-{group} {{" in text("style/recall.css")


def test_dates_and_numbers_follow_the_language_of_the_page() -> None:
    browser_language = r"toLocale(Date|Time)?String\(\)|DateTimeFormat\(\)(?!\.resolvedOptions)|toISOString\(\)\s*\}"
    assert not [name for name in SCRIPTS if re.search(browser_language, text(name))]


def test_both_languages_have_all_strings() -> None:
    english = words("en")
    assert english == words("zh")
    used = {word for name in [*SCRIPTS, "index.html"] for word in re.findall(r'word: "([\w.]+)"', text(name))}
    assert used <= english, used - english
