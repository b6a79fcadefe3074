"""What a server's log says of its callers: their names, and never a key, a token or a user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from identity.calls import bearer, listing, recall, refused
from identity.issuer import AUDIENCE, ISSUER, SECRET, token
from identity.keyring import Keyring

from talk import address_in

SERVE = [sys.executable, "-c", "from nomemory.cli.main import main; main()", "serve"]


@contextmanager
def logging_to(path: Path, **settings: str) -> Iterator[grpc.Channel]:
    """Run a server whose log goes to a file, at its most talkative."""
    environment = os.environ | {f"NOMEMORY_{name.upper()}": value for name, value in settings.items()}
    environment |= {"NOMEMORY_EMBEDDER": "none", "NOMEMORY_DATA": str(path.parent / "data")}
    with (
        path.open("w") as log,
        subprocess.Popen(
            [*SERVE, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        assert process.stdout is not None
        try:
            with grpc.insecure_channel(address_in(process.stdout.readline())) as channel:
                yield channel
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def calls_in(log: str) -> list[tuple[str | None, str | None, str]]:
    """Return caller, identity and code of each call."""
    lines = [json.loads(line) for line in log.splitlines()]
    return [(line.get("caller"), line.get("identity"), line["code"]) for line in lines if line["event"] == "rpc"]


def test_the_log_names_callers_and_keeps_their_secrets(tmp_path: Path, user: str) -> None:
    keyring = Keyring(tmp_path / "keys.json")
    key, users_token = keyring.key("recall", "act-as", name="chat"), token(user)
    settings = {"api_keys": str(keyring.path), "jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    with logging_to(tmp_path / "log", log_level="debug", **settings) as channel:
        recall(channel, user, (*bearer(key), ("x-user-id", user)))
        recall(channel, user, bearer(users_token))
        refused(listing, channel, f"{user}-other", bearer(users_token))
        refused(listing, channel, user, bearer(key))
        refused(listing, channel, user, bearer(key[:-3]))
        refused(listing, channel, user, bearer(users_token[:-3]))
        refused(listing, channel, user)
    log = (tmp_path / "log").read_text()
    assert calls_in(log) == [
        ("chat", "act-as", "OK"),
        ("user-token", "token", "OK"),
        ("user-token", None, "PERMISSION_DENIED"),
        ("chat", None, "PERMISSION_DENIED"),
        (None, None, "UNAUTHENTICATED"),
        (None, None, "UNAUTHENTICATED"),
        (None, None, "UNAUTHENTICATED"),
    ]
    for secret in (user, SECRET, *key.split("_", 2)[1:], *users_token.split(".")[1:]):
        assert secret[:-3] not in log


def test_a_local_server_says_that_nothing_vouched_for_the_user(tmp_path: Path, user: str) -> None:
    with logging_to(tmp_path / "log") as channel:
        recall(channel, user, (("x-user-id", user),))
        listing(channel, user)
    log = (tmp_path / "log").read_text()
    assert calls_in(log) == [("local", "x-user-id", "OK"), ("local", None, "OK")]
    assert user not in log
