"""The key of cursors and write tokens, shared by the cluster's replicas: a link in each data directory leads to it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deploy.files import DEPLOY, loaded

from nomemory.server.data_directory import DataDirectory
from nomemory.server.server_key import FileTokenCipher, retire_key, rotate_key

SERVICES = loaded(DEPLOY / "compose.cluster.yaml")["services"]


def run(entrypoint: list[str], keys: Path, data: Path) -> None:
    """Run what a service begins with, but for the server."""
    shell, option, said = entrypoint
    said = said.replace("/keys/", f"{keys}/").replace("/data/", f"{data}/").replace("exec nomemory serve", "true")
    subprocess.run([shell, option, said], check=True)


def test_replicas_open_what_another_has_sealed_also_after_a_rotation(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    ciphers = {}
    for name in ("keys", "nomemory-1", "nomemory-2", "keys", "nomemory-1"):  # and once more, as after a restart
        data = tmp_path / name
        data.mkdir(exist_ok=True)
        run(SERVICES[name]["entrypoint"], keys, data)
        if name != "keys":
            os.close(DataDirectory(data).lock())
            ciphers[name] = FileTokenCipher(DataDirectory(data).key, "log")
            assert DataDirectory(data).key.readlink() == keys / "server.key"
    one, other = ciphers.values()
    sealed = one.close("c_", b"cursor")
    assert other.open("c_", sealed) == b"cursor"
    rotate_key(keys / "server.key")
    assert other.open("c_", one.close("c_", b"later")) == b"later"
    assert other.open("c_", sealed) == b"cursor"
    retire_key(keys / "server.key")
    assert other.open("c_", one.close("c_", b"latest")) == b"latest"
    assert (keys / "server.key").stat().st_mode & 0o777 == 0o600
