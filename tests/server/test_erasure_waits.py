"""Tests that an erasure of vectors blocked by a full disk is reported and retried, while other erasures continue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from file_search import find_in_files
from server.fleet import until
from server.test_erased_bytes import assert_complete, plant, texts_and_vectors, traces, wait_until_gone

from nomemory.server.runtime.data_directory import DataDirectory
from nomemory.v1 import ingest_service_pb2 as i

if TYPE_CHECKING:
    from server.test_erased_bytes import Start

    from nomemory.server.runtime.settings import Settings
    from running_server import Server

MESSAGES = 20
MORE_THAN_ANY_DISK = 10**18


def faults(server: Server) -> list[tuple[str, str]]:
    status = server.ingest.GetIndexStatus(i.GetIndexStatusRequest())
    return [(i.Component.Name(fault.component), i.FaultKind.Name(fault.kind)) for fault in status.faults]


def promised(receipt: i.EraseUserResponse) -> set[str]:
    """Return the locations with a purge time, without their prefix."""
    purged = (residue for residue in receipt.residues if residue.HasField("purge_ts"))
    return {i.StorageLocation.Name(residue.location).removeprefix("STORAGE_LOCATION_") for residue in purged}


@pytest.fixture
def soon(own_settings: Settings) -> Settings:
    return own_settings.copy_with_changes(
        erase_within_s=1.0, erase_max_retry_delay_s=0.2, erase_max_vacuum_bytes=0, vector_flush_interval_s=0.2
    )


@pytest.mark.timeout(180)
def test_erasure_of_vectors_waits_for_disk_space_without_blocking_searches(
    start: Start, soon: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = soon.server.data
    texts, *vectors = texts_and_vectors("q7erased", MESSAGES)
    monkeypatch.setattr(DataDirectory, "check_disk_space", lambda _self, _least: None)
    with start(soon.copy_with_changes(min_free_disk_bytes=MORE_THAN_ANY_DISK)) as server:
        plant(server, "keeper", MESSAGES)
        plant(server, "q7erased", MESSAGES)
        erase = i.EraseUserRequest(user_id="q7erased")
        assert promised(server.ingest.EraseUser(erase)) == {
            "MESSAGE_LOG",
            "LEXICAL_INDEX",
            "VECTOR_INDEX",
            "VECTOR_BACKLOG",
        }
        assert until(lambda: faults(server) == [("COMPONENT_ERASURE", "FAULT_KIND_ERASURE_BLOCKED")])
        wait_until_gone(data, [texts])
        files = {file for file, _ in find_in_files(data, vectors)}
        assert files
        assert all(file.startswith("vectors") for file in files)
        receipt = server.ingest.EraseUser(erase)
        assert promised(receipt) == {"LEXICAL_INDEX", "VECTOR_BACKLOG"}
        assert all(
            "GetIndexStatus" in residue.detail for residue in receipt.residues if not residue.HasField("purge_ts")
        )
        assert_complete(server, "keeper", range(MESSAGES))
    monkeypatch.undo()
    with start(soon) as server:
        wait_until_gone(data, traces("q7erased", MESSAGES))
        assert until(lambda: not faults(server))
        assert_complete(server, "keeper", range(MESSAGES))
