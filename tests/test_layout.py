"""Tests for the import structure of the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from import_graph import between_files, between_packages, imports, is_within, on_cycles, source_files

ROOT = Path(__file__).parent.parent
PARTS = ("clients/python", "recall", "server")

LADDER = {
    "nomemory.spans": (),
    "nomemory.text": (),
    "nomemory.v1": (),
    "nomemory.client": ("nomemory.v1",),
    "nomemory.frameworks": ("nomemory.v1", "nomemory.client"),
    "nomemory.recall": (
        "nomemory.spans",
        "nomemory.text",
        "nomemory.v1",
        "nomemory.client.prompt_block",
        "nomemory.client.prompt_lines",
        "nomemory.client.prompt_passages",
    ),
    "nomemory.server": ("nomemory.spans", "nomemory.text", "nomemory.v1", "nomemory.recall"),
    "nomemory.importing": ("nomemory.v1", "nomemory.client", "nomemory.server.runtime.extension_point"),
    "nomemory.agents": ("nomemory.client", "nomemory.importing", "nomemory.server"),
    "nomemory.mcp": ("nomemory.v1", "nomemory.client", "nomemory.recall.tools", "nomemory.recall.model"),
    "nomemory.inspector": (
        "nomemory.v1",
        "nomemory.client",
        "nomemory.server.api.call",
        "nomemory.server.api.http",
        "nomemory.server.api.limits",
        "nomemory.server.api.parsing",
        "nomemory.server.api.pipeline",
        "nomemory.server.faults",
        "nomemory.server.api.identity.caller",
        "nomemory.server.runtime.listen_address",
        "nomemory.server.runtime.metrics",
    ),
}
"""What each part may import beside itself."""

BELOW_THE_AGENT = ("embedding", "indexing", "search", "store")
"""The server's packages that know no rule of the agent."""

KNOWS_THE_AGENT = (
    "runtime.wiring.",
    "api.validation.recall_requests",
    "api.validation.context_requests",
    "api.services.",
)
"""The server's modules that serve recalls."""


def test_nomemory_is_a_namespace_package() -> None:
    for part in PARTS:
        assert not (ROOT / part / "nomemory" / "__init__.py").exists()


def test_packages_import_only_lower_layers() -> None:
    for part, below in LADDER.items():
        for module, file in source_files(ROOT, PARTS, part).items():
            ours = {name for name in imports(file) if name.startswith("nomemory.")}
            strays = {name for name in ours if not is_within(name, part, *below)}
            assert not strays, f"{module} imports {sorted(strays)}"


def test_only_recall_modules_import_the_agent() -> None:
    for module, file in source_files(ROOT, PARTS, "nomemory.server").items():
        if any(is_within(name, "nomemory.recall") for name in imports(file)):
            inner = module.removeprefix("nomemory.server.")
            assert inner.startswith(KNOWS_THE_AGENT), f"{module} imports the agent"
            assert not is_within(inner, *BELOW_THE_AGENT)


def test_packages_have_no_import_cycles() -> None:
    arrows = between_packages(source_files(ROOT, PARTS, "nomemory"))
    cycles = on_cycles(arrows)
    assert not cycles, "\n".join(f"{arrow.start} → {arrow.end}: {witness}" for arrow, witness in sorted(cycles.items()))


def test_modules_have_no_import_cycles() -> None:
    arrows = between_files(source_files(ROOT, PARTS, "nomemory"))
    assert on_cycles(arrows) == {}


def test_engine_types_are_imported_only_by_their_adapters() -> None:
    homes = {
        "tantivy": "search/lexical/tantivy",
        "qdrant_edge": "search/semantic/edge",
        "qdrant_client": "search/semantic/qdrant",
        "sqlite3": "",
        "openai": "embedding",
        "opentelemetry.sdk": "runtime/tracing",
        "opentelemetry.exporter": "runtime/tracing",
    }
    for engine, home in homes.items():
        for file in (ROOT / "server/nomemory/server").rglob("*.py"):
            imports = [
                line.split()[1]
                for line in file.read_text("utf-8").splitlines()
                if line.startswith(("import ", "from "))
            ]
            if home and any(name == engine or name.startswith(f"{engine}.") for name in imports):
                assert file.parent.as_posix().endswith(f"server/{home}"), f"{file} imports {engine}"


def test_only_wiring_and_indexing_import_storage_engines() -> None:
    server = ROOT / "server/nomemory/server"
    engines = ("nomemory.server.store.sqlite.", "nomemory.server.search.lexical.tantivy.")
    knowing = {
        file.relative_to(server).as_posix()
        for file in server.rglob("*.py")
        if file.parent.relative_to(server).as_posix() not in {"store/sqlite", "search/lexical/tantivy"}
        and any(engine in file.read_text("utf-8") for engine in engines)
    }
    assert knowing == {
        "indexing/lexical/indexer.py",
        "indexing/lexical/messages.py",
        "runtime/data_directory.py",
        "runtime/wiring/lexical_index.py",
        "runtime/wiring/log_store.py",
        "runtime/wiring/sqlite_store.py",
        "runtime/wiring/vector_check.py",
        "runtime/wiring/wiring.py",
        "store/backup.py",
        "store/consistency.py",
        "store/migration.py",
        "store/repair.py",
    }


def test_settings_page_is_generated_from_the_settings() -> None:
    script = ROOT / "scripts" / "gen_settings_docs.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
