"""Fixtures with a real server on a free port, and a separate user for every test."""

from __future__ import annotations

import gc
import os
import shutil
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, settings
from postgres import NOT_INSTALLED, PrivatePostgres, find_program_directory, fresh_schema, shared_postgres
from sample_data import prepare_embedded_sample
from server.fleet import fleet

from nomemory.server.runtime.logs import configure_logs
from nomemory.server.runtime.settings import Settings
from nomemory.server.runtime.wiring.garbage_collection import freeze_heap, pause_garbage_collection
from nomemory.v1 import ingest_service_pb2_grpc, query_service_pb2_grpc
from proofs.round_robin_channel import RoundRobinChannel
from running_server import Server, settings_without_embedder, started

configure_logs("info")

# Hypothesis warns that all examples of a test get the same fixture, which is intended here.
IGNORED = [HealthCheck.function_scoped_fixture]
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20, suppress_health_check=IGNORED)
settings.register_profile("thorough", deadline=None, max_examples=1_000, suppress_health_check=IGNORED)
settings.load_profile("repeatable")

LONGEST = (
    "tests/server/test_model_migration.py",
    "tests/local_memory/test_local_server.py",
    "tests/embedding/test_onnx.py",
    "tests/vector/test_indexer.py",
    "tests/test_first_steps.py",
    "tests/server/test_damaged_vectors.py",
    "tests/local_memory/test_hooks.py",
    "tests/server/test_erased_bytes.py",
    "tests/server/test_chat_model_faults.py",
    "tests/server/test_postgres.py",
    "tests/vector/test_shared_index.py",
    "tests/test_extending.py",
    "tests/local_memory/test_hermes.py",
    "tests/server/test_paging.py",
    "tests/hybrid/test_isolation.py",
    "tests/vector/test_compaction.py",
    "tests/server/test_highlights.py",
    "tests/server/test_recall_reads_writes.py",
    "tests/test_scripts.py",
    "tests/log/test_postgres_log.py",
    "tests/server/test_export.py",
    "tests/server/test_stopped_processes.py",
    "tests/vector/test_edge_index.py",
    "tests/server/test_shared_index.py",
    "tests/lexical/test_oracle.py",
    "tests/server/test_qdrant_away.py",
    "tests/isolation/test_fuzzing.py",
    "tests/model_context/test_transports.py",
    "tests/evaluation/test_recorded_answers.py",
    "tests/isolation/test_foreign_requests.py",
    "tests/test_tutorial.py",
    "tests/log/test_message_log.py",
    "tests/cli/test_restored_erasures.py",
    "tests/server/test_lost_log.py",
    "tests/cli/test_migrate_killed.py",
    "tests/local_memory/test_opencode.py",
    "tests/cli/test_doctor_data.py",
    "tests/server/test_recall_with_a_model.py",
    "tests/identity/test_namespace_attacks.py",
    "tests/local_memory/test_coding_sample.py",
    "tests/model_context/test_oauth.py",
    "tests/cli/test_migrate.py",
    "tests/server/test_limits.py",
    "tests/server/test_conversations.py",
    "tests/server/test_durability.py",
)
"""The slowest files, slowest first. They run first, so that no process is left with one of them at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the thousands of collected tests from garbage collection, and run it less often, to save time."""
    with pause_garbage_collection():
        collected = yield
    freeze_heap()
    gc.set_threshold(20_000, 20, 50)
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the slowest files to the front, in a fixed order; the others keep their order."""
    ranks = {path: rank for rank, path in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


@contextmanager
def two_replicas(settings: Settings, url: str, data: Path) -> Iterator[Server]:
    """Run two servers of one database, the second in a separate process; calls alternate between them."""
    with started(settings.copy_with_changes(database_url=url)) as first:
        data.mkdir()
        shutil.copy(settings.server.data / "server.key", data)  # both servers can decrypt the tokens of the other
        with (
            fleet(data, NOMEMORY_DATABASE_URL=url, NOMEMORY_DRAIN_TIMEOUT_S="0") as second,
            RoundRobinChannel([grpc.insecure_channel(target) for target in (first.target, second.target)]) as channel,
        ):
            yield Server(
                first.target,
                first.http,
                first.settings,
                query_service_pb2_grpc.QueryServiceStub(channel),
                ingest_service_pb2_grpc.IngestServiceStub(channel),
                first.metrics,
                (first.target, second.target),
            )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run marked tests with each engine of the message log; with PostgreSQL, two servers share the log."""
    if "vector_server" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_logs"):
        metafunc.parametrize("vector_server", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the default embedder of this machine."""
    with started(
        Settings.from_environment(data=tmp_path_factory.mktemp("data"), listen="127.0.0.1:0", drain_timeout_s=0.0)
    ) as server:
        yield server


def get_run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory that all processes of a test run share."""
    directory = tmp_path_factory.getbasetemp()
    return directory.parent if "PYTEST_XDIST_WORKER" in os.environ else directory


@pytest.fixture(scope="session")
def sample_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the sample and its vectors, and with the default embedder of this machine."""
    data = tmp_path_factory.mktemp("sample") / "data"
    shutil.copytree(prepare_embedded_sample(get_run_directory(tmp_path_factory)), data)
    settings = {"data": data, "listen": "127.0.0.1:0", "http_listen": "127.0.0.1:0", "drain_timeout_s": 0.0}
    with started(Settings.from_environment(**settings)) as server:
        yield server


@pytest.fixture(scope="session")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a SQLite log and without an embedder, for small caller vectors."""
    with started(settings_without_embedder(tmp_path_factory.mktemp("vectors"))) as server:
        yield server


@pytest.fixture(scope="session")
def replicas(postgres: PrivatePostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two servers for caller vectors that share a PostgreSQL log."""
    settings = settings_without_embedder(tmp_path_factory.mktemp("vectors"))
    second = tmp_path_factory.mktemp("replica") / "data"
    with two_replicas(settings, fresh_schema(postgres), second) as server:
        yield server


@pytest.fixture(scope="session")
def vector_server(request: pytest.FixtureRequest) -> Server:
    """Return a server for caller vectors, with each log if the test is marked, otherwise with SQLite."""
    is_one = getattr(request, "param", "sqlite") == "sqlite"
    server: Server = request.getfixturevalue("one_server" if is_one else "replicas")
    return server


@pytest.fixture(scope="session")
def small_batches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose exports have batches of three messages."""
    given_settings = settings_without_embedder(tmp_path_factory.mktemp("small"), max_batch_messages=3)
    with started(given_settings) as server:
        yield server


@pytest.fixture
def start() -> Callable[[Settings], AbstractContextManager[Server]]:
    """Start additional servers with separate settings or data."""
    return started


@pytest.fixture
def own_settings(tmp_path: Path) -> Settings:
    """Settings of a small separate server without an embedder."""
    return settings_without_embedder(tmp_path / "data")


@pytest.fixture
def user() -> str:
    """A user id that no other test uses."""
    return f"user-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePostgres]:
    """A private PostgreSQL shared by all tests of a run, without durability."""
    if find_program_directory() is None:
        pytest.skip(NOT_INSTALLED)
    with shared_postgres(get_run_directory(tmp_path_factory)) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PrivatePostgres) -> str:
    """The URL of a new schema in the private PostgreSQL."""
    return fresh_schema(postgres)
