"""Tests for the shared key of cursors and write tokens, which the cluster creates once."""

from __future__ import annotations

import subprocess
from pathlib import Path

from deploy.files import DEPLOY, environment_of_service, loaded

from nomemory.server.runtime.token_keys import load_or_create_key

FILE = "compose.cluster.yaml"


def test_key_is_created_once_with_owner_only_permissions(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    shell, option, script = loaded(DEPLOY / FILE)["services"]["keys"]["entrypoint"]
    made = []
    for _ in range(2):  # a second time, as at the next start
        subprocess.run([shell, option, script.replace("/keys/", f"{keys}/")], check=True)
        made.append(load_or_create_key(keys / "server.key"))
    assert made[0] == made[1]
    assert (keys / "server.key").stat().st_mode & 0o777 == 0o600
    assert {environment_of_service(FILE, f"nomemory-{n}")["NOMEMORY_KEY_FILE"] for n in (1, 2)} == {"/keys/server.key"}
