"""A shard whose points are copied into new files: nothing is lost, whatever is written or happens meanwhile."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from written import written

from nomemory.server.message import Role
from nomemory.server.processes.vitals import data_bytes
from nomemory.server.vector.edge.engine import CopyLostError, ShardCopy
from nomemory.server.vector.edge.files import CopyLimits, ShardFiles
from nomemory.server.vector.edge.shard import Shard
from nomemory.server.vector.protocol import NoRoomError, VectorPoint


def point(n: int, sequence: int = 1) -> VectorPoint:
    return VectorPoint("u", f"m{n}", 0, sequence, n, Role.USER, "c", vector(n + 1000 * sequence))


def vector(seed: int) -> bytes:
    numbers = np.random.default_rng(seed).standard_normal(4).astype("<f4")
    return bytes((numbers / np.linalg.norm(numbers)).astype("<f4").tobytes())


def remaining(directory: Path, vectors: list[bytes]) -> int:
    held = b"".join(written(file) for file in directory.rglob("*") if file.is_file())
    return sum(one in held for one in vectors)


@pytest.mark.parametrize("pack_points", [20_000, 5], ids=["unpacked", "packed"])
def test_what_is_written_and_removed_while_points_are_copied_is_so_in_the_copy(
    tmp_path: Path, pack_points: int
) -> None:
    shard = Shard(tmp_path / "shard", 4, pack_points=pack_points)
    shard.upsert([point(n) for n in range(40)])
    for n in range(0, 40, 2):
        shard.remove("u", f"m{n}", 0)
    assert remaining(tmp_path, [vector(n + 1000) for n in range(0, 40, 2)]) == 20
    has_more, step = shard.copy_living(begins=True, most=3), 0
    while has_more:
        shard.upsert([point(100 + step), point(4 * step + 1, sequence=2)])
        shard.remove("u", f"m{4 * step + 3}", 0)
        has_more, step = shard.copy_living(begins=False, most=3), step + 1
    expected = {f"m{100 + n}": vector(1100 + n) for n in range(step)}
    expected |= {f"m{n}": vector(n + 1000) for n in range(1, 40, 2)}
    for n in range(step):
        expected[f"m{4 * n + 1}"] = vector(4 * n + 2001)
        expected.pop(f"m{4 * n + 3}", None)
    for _ in range(2):
        assert shard.count() == len(expected)
        assert shard.first_vectors("u", [f"m{n}" for n in range(200)]) == expected
        shard.close()
        shard = Shard(tmp_path / "shard", 4, pack_points=pack_points)
    shard.close()
    assert remaining(tmp_path, [vector(n + 1000) for n in range(0, 40, 2)]) == 0
    assert [found.name for found in tmp_path.iterdir()] == ["shard"]


def test_a_copy_that_was_lost_begins_again(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "shard", 4)
    shard.upsert([point(n) for n in range(5)])
    with pytest.raises(CopyLostError):
        shard.copy_living(begins=False, most=3)
    assert shard.copy_living(begins=True, most=3)
    assert shard.copy_living(begins=True, most=3)
    assert not shard.copy_living(begins=False, most=3)
    assert shard.count() == 5
    shard.close()


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (["shard"], "shard"),
        (["shard", "shard.unfinished"], "shard"),
        (["shard", "shard.finished"], "shard"),
        (["shard.finished", "shard.former"], "shard.finished"),
        (["shard", "shard.former"], "shard"),
    ],
)
def test_whenever_the_process_dies_a_complete_shard_is_there(tmp_path: Path, found: list[str], left: str) -> None:
    for name in found:
        (tmp_path / name).mkdir()
        (tmp_path / name / "is").write_text(name)
    ShardFiles(tmp_path / "shard").recover()
    assert [one.name for one in tmp_path.iterdir()] == ["shard"]
    assert (tmp_path / "shard" / "is").read_text() == left


def test_a_copy_for_which_the_room_runs_out_is_thrown_away_and_the_shard_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = Shard(tmp_path / "shard", 4)
    shard.upsert([point(n) for n in range(10)])
    shard.remove("u", "m0", 0)
    assert shard.copy_living(begins=True, most=3)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1000))
        with pytest.raises(NoRoomError, match="needs 1 MiB on the disk, of which 1 are free"):
            shard.copy_living(begins=False, most=3)
        with pytest.raises(NoRoomError, match="on the disk"):
            shard.copy_living(begins=True, most=3)
    assert [found.name for found in tmp_path.iterdir()] == ["shard"]
    shard.upsert([point(10)])
    assert shard.count() == 10
    assert not shard.copy_living(begins=True, most=100)
    assert remaining(tmp_path, [vector(1000)]) == 0
    shard.close()


def test_a_copy_that_would_break_the_bound_on_memory_is_not_begun(tmp_path: Path) -> None:
    shard = Shard(tmp_path / "shard", 4, CopyLimits(memory_max_bytes=data_bytes() * 8 // 7))
    shard.upsert([point(n) for n in range(10)])
    with pytest.raises(NoRoomError, match="of memory"):
        shard.copy_living(begins=True, most=3)
    assert [found.name for found in tmp_path.iterdir()] == ["shard"]
    assert shard.count() == 10
    shard.close()


def test_a_copy_that_fails_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Shard(tmp_path / "shard", 4)
    shard.upsert([point(n) for n in range(10)])
    assert shard.copy_living(begins=True, most=3)
    monkeypatch.setattr(ShardCopy, "take", lambda _self, _source, _most: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        shard.copy_living(begins=False, most=3)
    assert [found.name for found in tmp_path.iterdir()] == ["shard"]
    assert shard.count() == 10
    shard.close()
