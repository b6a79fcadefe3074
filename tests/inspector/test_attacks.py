"""Attacks on the inspector: markup in stored data, pages of other origins, and access to other users."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring
from inspector.inspector_page import ROWS, Inspected, recalled
from web.chromium import MISSING, PROGRAM, serving_page
from web.http_server import settings_of

from chat_messages import new_message
from nomemory.client import Client
from nomemory.v1 import message_pb2 as m
from running_server import started

if TYPE_CHECKING:
    from web.devtools import Browser, Page

pytestmark = [pytest.mark.skipif(not PROGRAM, reason=MISSING), pytest.mark.timeout(180)]
FIELDS = ("user", "id", "content", "name", "conversation", "key", "value")


def attack(field: str) -> str:
    """Return markup that would run in many places of a page."""
    return f"\"'></script><img src=x onerror=document.title='{field}'><b class=pwned>{field}"


def evil(user: str) -> list[m.ChatMessage]:
    whole = (
        f"{attack('content')} {{constructor.constructor('document.title=1')()}} javascript:alert(1) I eat no peanuts."
    )
    message = new_message(
        user, attack("id"), whole, 1_700_000_000, name=attack("name"), conversation_id=attack("conversation")
    )
    message.metadata[attack("key")[:64]] = attack("value")
    return [message, new_message(user, "calm", "I am allergic to peanuts.", 1_700_000_100)]


@pytest.fixture(scope="module")
def attacked(inspected: Inspected) -> Inspected:
    user = attack("user")
    with Client(inspected.server.target) as client:
        written = client.write(evil(user))
        client.lexical_search(user, "peanuts", at_least=written.write_token)
    return inspected


def assert_no_injection(page: Page) -> None:
    """Check that no stored text became an element or ran. Error responses, which the browser logs, are allowed."""
    assert page.value("document.querySelectorAll('img:not(.brand img), .pwned, script:not([type=module])').length") == 0
    assert page.value("document.title") == "NoMemory inspector"
    assert [text for text in page.complaints() if not text.startswith("Failed to load resource")] == []


def test_markup_in_messages_is_shown_as_text(attacked: Inspected, browser: Browser) -> None:
    page = attacked.page(browser)
    page.until(f"document.querySelector('#users').innerText.includes({json.dumps(attack('user'))})")
    page.write("#user-search", '"')
    page.press("Enter")
    page.until(f"{ROWS}.length === 2")
    assert attack("name") in page.text("#line")
    assert attack("content") in page.text("#line")
    assert_no_injection(page)
    page.write("#words", "peanuts pwned")
    page.until("document.querySelector('#hits mark')")
    page.click("#hits [role=option]")
    page.press("Escape")
    for field in FIELDS[1:]:
        shown = attack(field)[:64] if field == "key" else attack(field)
        page.until(f"document.querySelector('.card').innerText.includes({json.dumps(shown)})")
    assert_no_injection(page)
    page.write("#question", f"{attack('question')} Do I eat peanuts?")
    recalled(page)
    assert attack("content") in page.text(".found-messages")
    assert attack("question") in page.text(".steps")
    for opened in (".step", ".score summary", ".statement .place", "#tab-compare", "#tab-state"):
        page.click(opened)
    assert_no_injection(page)


def test_markup_in_skill_name_and_url_is_shown_as_text(attacked: Inspected, browser: Browser) -> None:
    page = browser.page(f"{attacked.url}#user={quote(attack('hash'))}&question={quote(attack('asked'))}")
    page.until("document.querySelector('.extent').textContent === 'No messages'")
    assert page.text("#user").startswith(attack("hash"))
    page.click("#recall .ask summary")
    page.value(
        f"import('/inspect/element.js').then(({{byId}}) => {{ const option = document.createElement('option');"
        f" option.text = {json.dumps(attack('skill')[:64])}; byId('recall').querySelector('select')"
        ".append(option); option.selected = true; })"
    )
    page.click("#recall .go")
    page.until("document.querySelector('.verdict.failed')")
    assert_no_injection(page)


def test_injected_scripts_do_not_run(inspected: Inspected, browser: Browser) -> None:
    page = inspected.page(browser)
    for way in (
        "document.body.innerHTML = '<img src=x onerror=window.ran=1>'",
        "const script = document.createElement('script'); script.text = 'window.ran=1'; document.body.append(script)",
        "document.body.setAttribute('onclick', 'window.ran=1')",
    ):
        refused = page.value(f"(() => {{ try {{ {way}; return false }} catch (error) {{ return error.name }} }})()")
        assert refused == "TypeError", way
    sent = page.value("fetch('http://127.0.0.1:9/').then(() => 'sent', error => error.name)")
    assert (sent, page.value("window.ran ?? null")) == ("TypeError", None)


def test_page_cannot_be_framed_or_controlled_by_its_opener(
    inspected: Inspected, browser: Browser, tmp_path: Path
) -> None:
    frame = tmp_path / "frame.html"
    frame.write_text(f"<iframe src='{inspected.url}'></iframe>", encoding="utf-8")
    with serving_page(frame) as pages:
        page = browser.page(pages.origin("127.0.0.1"))
        page.until(
            "(() => { try { return !document.querySelector('iframe').contentDocument?.body } catch { return true } })()"
        )
        assert any("frame-ancestors" in complaint or "X-Frame-Options" in complaint for complaint in page.complaints())
        opens = f"void (window.opened = window.open('{inspected.url}'))"
        page.command("Runtime.evaluate", expression=opens, userGesture=True)
        page.until("window.opened.closed")  # a window of another browsing context group is reported as closed


def test_page_of_another_origin_cannot_call_the_api(inspected: Inspected, browser: Browser, tmp_path: Path) -> None:
    blank = tmp_path / "blank.html"
    blank.write_text("<title>evil</title>", encoding="utf-8")
    with serving_page(blank) as pages:
        page = browser.page(pages.origin("127.0.0.1"))
        for path in ("messages/lexical_search", "recall", "users/ann/messages:delete"):
            for kind in ("application/json", "text/plain"):
                address = f"{inspected.server.http}/v1/{path}"
                fetch_options = f"{{method: 'POST', body: '{{}}', headers: {{'content-type': '{kind}'}}}}"
                assert (
                    page.value(f"fetch('{address}', {fetch_options}).then(() => 1, error => error.name)") == "TypeError"
                )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Inspected, str]]:
    """A server that checks credentials, and a key of a service."""
    directory = tmp_path_factory.mktemp("guarded-inspector")
    keyring = Keyring(directory / "keys.json")
    key = keyring.key("query", "recall", "act-as", "admin", "ingest", name="operator")
    signed: dict[str, Any] = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    with started(settings_of(directory, inspector=True, api_keys=keyring.path, **signed)) as server:
        with Client(server.target, api_key=key) as client:
            client.write(
                [new_message("ann", "1", "I never eat peanuts."), new_message("bob", "2", "Zephyrquill is my secret.")]
            )
        yield Inspected(server), key


def entered(guarded: Inspected, browser: Browser, credential: str) -> Page:
    """Open the page and enter a credential."""
    page = browser.page(guarded.url)
    page.until("document.querySelector('dialog.key').open")
    page.write("#credential", credential)
    page.press("Enter")
    return page


def test_api_key_is_requested_and_not_stored(guarded: tuple[Inspected, str], browser: Browser) -> None:
    inspected, key = guarded
    page = entered(inspected, browser, key)
    page.until("document.querySelector('#users').innerText.includes('ann')")
    assert key not in page.value("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location])")
    page.reload()
    page.until("document.querySelector('dialog.key').open")


def test_page_hides_controls_of_unavailable_features(
    guarded: tuple[Inspected, str], inspected: Inspected, browser: Browser
) -> None:
    page = entered(guarded[0], browser, token("ann"))  # one skill, credentials
    page.until(f"{ROWS}.length === 1")
    assert page.value("document.querySelector('#key').checkVisibility()")
    assert not page.value("document.querySelector('#tab-compare').checkVisibility()")
    page = inspected.page(browser, "sam")  # two skills, no credentials
    page.until("document.querySelector('#tab-compare').checkVisibility()")
    assert not page.value("document.querySelector('#key').checkVisibility()")


def test_invalid_api_key_shows_no_messages(guarded: tuple[Inspected, str], browser: Browser) -> None:
    page = entered(guarded[0], browser, "nmk_wrong")
    page.until("document.querySelector('dialog.key').open && document.querySelector('#credential').value === ''")
    assert page.value(f"{ROWS}.length") == 0


def test_user_token_shows_only_its_user(guarded: tuple[Inspected, str], browser: Browser) -> None:
    inspected, _ = guarded
    page = entered(inspected, browser, token("ann"))
    page.until(f"{ROWS}.length === 1")
    assert page.value("document.querySelector('#user').disabled")
    assert page.text(".extent").startswith("1 message, ")
    page.value(f"location.hash = '#user=bob'; window.token = {json.dumps(token('ann'))}")
    page.until("location.hash === '#user=ann'")
    assert page.text("#user") == "ann"
    refused = page.value(
        """Promise.all(['contract', 'credential'].map(name => import(`/inspect/${name}.js`)))
        .then(([contract, {credential}]) => { credential.type(token); return Promise.all([
          contract.listMessages({userId: 'bob'}), contract.searchLexical({userId: 'bob', queryText: 'secret'}),
          contract.searchHybrid({userId: 'bob', queryText: 'secret'}), contract.countMessages({userId: 'bob'}),
          contract.getMessages({userId: 'bob', messageIds: ['2']}), contract.listUsers({}),
          contract.indexStatus({userId: 'bob'}), contract.streamRecall({question: 'secret?'}, 'bob').next(),
        ].map(call => call.then(JSON.stringify, error => error.code))) })"""
    )
    assert set(refused) <= {"permission_denied", "unauthenticated"}, refused
    assert "Zephyrquill" not in page.value("document.body.innerText")


def test_files_are_public_and_calls_require_a_key(guarded: tuple[Inspected, str]) -> None:
    inspected, _ = guarded
    assert httpx.get(inspected.url).status_code == 200
    assert httpx.get(f"{inspected.server.http}/v1/users").status_code == 401
