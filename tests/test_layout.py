"""The shape of the repository that everything else relies on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_nomemory_is_a_namespace_that_no_part_owns() -> None:
    for part in ("server", "recall", "clients/python"):
        assert not (ROOT / part / "nomemory" / "__init__.py").exists()


def test_arrows_point_one_way() -> None:
    allowed = {
        "clients/python/nomemory/client": ("nomemory.v1", "nomemory.client"),
        "recall/nomemory/text": ("nomemory.text",),
        "recall/nomemory/recall": ("nomemory.text", "nomemory.v1", "nomemory.recall"),
        "server/nomemory/server": ("nomemory.text", "nomemory.v1", "nomemory.server", "nomemory.recall"),
        "server/nomemory/evaluation": (
            "nomemory.v1",
            "nomemory.evaluation",
            "nomemory.client",
            "nomemory.cli",
            "nomemory.server.embedding",
            "nomemory.server.hybrid.weights",
        ),
    }
    for part, targets in allowed.items():
        for file in (ROOT / part).rglob("*.py"):
            for line in file.read_text(encoding="utf-8").splitlines():
                words = line.split()
                if words[:1] in (["from"], ["import"]) and words[1].startswith("nomemory."):
                    assert words[1].startswith(targets), f"{file}: {line}"


def test_an_engines_own_types_stay_in_its_files() -> None:
    homes = {
        "tantivy": "lexical",
        "qdrant_edge": "vector",
        "qdrant_client": "vector",
        "sqlite3": "",
        "openai": "embedding",
    }
    for engine, home in homes.items():
        for file in (ROOT / "server/nomemory/server").rglob("*.py"):
            imports = [
                line.split()[1]
                for line in file.read_text("utf-8").splitlines()
                if line.startswith(("import ", "from "))
            ]
            if home and any(name == engine or name.startswith(f"{engine}.") for name in imports):
                assert file.parent.name == home, f"{file} imports {engine}"


def test_only_the_composition_knows_the_engines_of_the_log_and_of_the_lexical_index() -> None:
    server = ROOT / "server/nomemory/server"
    engines = ("nomemory.server.log.sqlite_", "nomemory.server.lexical.tantivy_", "nomemory.server.lexical.indexer")
    knowing = {
        file.relative_to(server).as_posix()
        for file in server.rglob("*.py")
        if file.parent.name not in {"log", "lexical"} and any(engine in file.read_text("utf-8") for engine in engines)
    }
    assert knowing == {"app.py", "data_directory.py"}


def test_the_settings_page_is_generated_from_the_settings() -> None:
    script = ROOT / "scripts" / "gen_settings_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
