"""`nomemory top`: what it shows of figures that are known, of a real server, and of one that is not there."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.conftest import PLAIN, Run
from cli.top.told import FIRST_AT, SECONDS, STARTED, busy, calm, telling
from identity.authority import LOCALHOST, authority, issued
from identity.keyring import Keyring
from metrics.scraping import read
from rich.console import Console
from web.conftest import settings_of

from conftest import Server, started
from nomemory.cli.top import command, units
from nomemory.cli.top.frame import frame
from nomemory.cli.top.interval import between
from nomemory.cli.top.scrape import parsed
from nomemory.server.metrics import catalog
from nomemory.server.metrics.samples import Samples
from nomemory.server.metrics.text import text_of
from nomemory.v1 import query_service_pb2 as q

Golden = Callable[[str, str], None]
TOKEN = "a-token-for-scrapes"  # noqa: S105 - of this test
START = """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from nomemory.cli.main import main
main()"""
"""Whoever runs the tests may ignore Ctrl-C, and with them what they start."""
TOP = [sys.executable, "-c", START, "top"]


@dataclass
class Clock:
    """Stands in for `time`: it goes on only while somebody sleeps."""

    now: float = FIRST_AT

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - 1e9

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "time", Clock())


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with metrics at a port of their own, for whoever has the token."""
    settings = settings_of(tmp_path_factory.mktemp("watched"), metrics="127.0.0.1:0", metrics_token=TOKEN)
    with started(settings) as server:
        yield server


def shown(samples: Samples, lines: int | None = None, width: int = 80) -> list[str]:
    """Return the lines of a frame of the figures since the server's start."""
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123 - nothing to close
    found = between(None, parsed(text_of(samples).decode()), 0, FIRST_AT)
    console.print(frame(found, "127.0.0.1:9464", FIRST_AT, lines))
    return console.export_text().splitlines()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("name", "answers"), {"top": (calm(), busy()), "top-calm": (calm(),)}.items())
def test_once_shows_what_somebody_looked_at(run: Run, golden: Golden, name: str, answers: tuple[Samples, ...]) -> None:
    with telling(*answers) as address:
        done = run("top", "--once", "--interval", str(SECONDS), "--target", address)
    assert done.exit_code == 0, done.output
    golden(f"{name}.txt", done.stdout.replace(address, "127.0.0.1:9464"))


@pytest.mark.usefixtures("clock")
def test_a_server_that_was_started_anew_is_told_from_its_start(run: Run) -> None:
    with telling(busy(), calm(STARTED + 11_000)) as address:
        done = run("top", "--once", "--target", address)
    assert "since it started" in done.stdout
    assert re.search(r"ListMessages +0\.2 ", done.stdout), done.stdout  # 100 calls in 522 seconds


def test_a_scrape_is_read_as_prometheus_reads_it() -> None:
    told = busy()
    told.put(catalog.FAULT, 1, 'a"b\\c\nd', "KIND")
    text = text_of(told).decode()
    ours = {
        (name, tuple(sorted(labels))): value
        for name, values in parsed(text).series.items()
        for labels, value in values.items()
    }
    assert ours == read(text).samples


def test_every_frame_fits_a_terminal_of_80_by_24() -> None:
    told = busy()
    for number in range(30):
        told.put(catalog.PROCESS_MEMORY, 1e6, f"reader-{number}", "reader")
        told.put(catalog.FAULT, int(number < 2), f"reader-{number}", "NOT_ANSWERING")
    lines = shown(told, lines=24)
    assert len(lines) <= 24
    assert "… 29 more" in "\n".join(lines)
    assert "ListMessages" in "\n".join(lines)


def test_what_a_server_says_cannot_drive_the_terminal() -> None:
    told = calm()
    told.put(catalog.FAULT, 1, "a\x1b[2J\x9b31m", "KIND")
    assert not {"\x1b", "\x9b"} & set("\n".join(shown(told)))


def test_a_server_that_only_recalls_has_no_lines_of_a_log() -> None:
    told = Samples()
    told.put(catalog.BUILD, 1, "0.2.0", "3.12.1")
    told.put(catalog.START, STARTED)
    labels = {line.split()[0] for line in shown(told) if line}
    assert {"Calls", "Recalls"} <= labels
    assert not {"Log", "Words", "Meaning"} & labels


def test_a_log_that_cannot_be_read_is_told() -> None:
    told = Samples()
    told.put(catalog.LOG_READABLE, 0)
    assert "Log      cannot be read" in [line.rstrip() for line in shown(told)]


@pytest.mark.parametrize("of", ["metrics", "http"])
def test_a_real_server_is_watched(watched: Server, run: Run, user: str, of: str) -> None:
    for _ in range(3):
        watched.query.ListMessages(q.ListMessagesRequest(user_id=user))
    address = getattr(watched, of).removeprefix("http://")
    done = run("top", "--once", "--interval", "0.2", "--target", address, "--token", TOKEN)
    assert done.exit_code == 0, done.output
    assert "ListMessages" in done.stdout
    assert re.search(r"^writer +\d+ MB +\d+% +0$", done.stdout, re.MULTILINE), done.stdout
    assert "\x1b" not in done.stdout


def test_whoever_may_not_scrape_is_told_what_to_give(watched: Server, run: Run) -> None:
    done = run("top", "--once", "--target", watched.metrics.removeprefix("http://"))
    assert done.exit_code == 1
    assert "NOMEMORY_METRICS_TOKEN" in done.stderr


def test_over_tls_a_key_that_sees_the_whole_server_is_enough(run: Run, tmp_path: Path) -> None:
    ca, keyring = authority(), Keyring(tmp_path / "keys.json")
    (tmp_path / "ca.pem").write_bytes(ca.pem())
    certificate, key = issued(ca, "server", *LOCALHOST).written_to(tmp_path, "server")
    admin, reader = keyring.key("admin", name="operator"), keyring.key("query", name="chat")
    settings = settings_of(tmp_path, metrics="127.0.0.1:0", tls_cert=certificate, tls_key=key, api_keys=keyring.path)
    with started(settings) as server:
        address = ["--target", server.metrics.removeprefix("http://"), "--tls-ca", str(tmp_path / "ca.pem")]
        seen = run("top", "--once", "--interval", "0.2", *address, "--api-key", admin)
        assert seen.exit_code == 0, seen.output
        assert "writer" in seen.stdout
        assert run("top", "--once", *address, "--api-key", reader).exit_code == 1
        untrusted = run("top", "--once", "--tls", *address[:2], "--api-key", admin)
    assert untrusted.exit_code == 1
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted.stderr.upper().replace(" ", "_")


def test_where_nothing_answers_a_line_says_so(run: Run) -> None:
    done = run("top", "--once", "--target", "127.0.0.1:1")
    assert done.exit_code == 1
    assert "nomemory serve --metrics 127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(("body", "status"), [(b"hello", 200), (b"nomemory_build_info x\n", 200), (b"\xff", 404)])
def test_what_is_no_scrape_is_refused(run: Run, body: bytes, status: int) -> None:
    with telling(body, status=status) as address:
        done = run("top", "--once", "--target", address)
    assert done.exit_code == 1
    assert f"no metrics of NoMemory (HTTP {status})" in done.stderr


def test_a_pipe_gets_one_frame_after_the_other_until_ctrl_c() -> None:
    with telling(calm()) as address:
        command_line = [*TOP, "--interval", "0.2", "--target", address]
        environment = os.environ | {key: value for key, value in PLAIN.items() if value}
        with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True, env=environment) as running:
            assert running.stdout
            heads = 0
            for line in running.stdout:
                heads += line.startswith("NoMemory 0.2.0")
                assert "\x1b" not in line
                if heads == 3:
                    running.send_signal(signal.SIGINT)
                    break
            rest = running.stdout.read()
            assert running.wait(30) == 0
    assert "Traceback" not in rest


def test_a_terminal_is_redrawn_and_left_as_it_was() -> None:
    leader, follower = pty.openpty()
    with telling(calm()) as address:
        command_line = [*TOP, "--interval", "0.2", "--target", address]
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
        with subprocess.Popen(command_line, stdout=follower, stderr=follower, env=environment) as running:
            os.close(follower)
            seen = b""
            while seen.count(b"NoMemory 0.2.0") < 2:
                seen += os.read(leader, 65_536)
            running.send_signal(signal.SIGINT)
            while b"\x1b[?1049l" not in seen:  # back to the screen of before
                seen += os.read(leader, 65_536)
            assert running.wait(30) == 0
    os.close(leader)
    assert seen.index(b"\x1b[?1049h") < seen.index(b"NoMemory")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.00012, "0.1 ms"), (0.25, "250 ms"), (1.5, "1.5 s"), (float("inf"), ">30 s")],
)
def test_times_are_short(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.25, "3.2 s"), (95, "1 min 35 s"), (11_520, "3 h 12 min"), (180_000, "2 d 2 h")]
)
def test_ages_have_two_units(seconds: float, text: str) -> None:
    assert units.age(seconds) == text
