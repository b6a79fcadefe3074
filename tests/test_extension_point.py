"""Tests for extension points with fake packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nomemory.importing.formats import IMPORTERS, load_format
from nomemory.importing.record import ImportDefaults
from nomemory.server.embedding.factory import EMBEDDERS, choose_embedder
from nomemory.server.runtime.extension_point import ExtensionError, ExtensionPoint
from nomemory.server.runtime.settings import Settings

POINT: ExtensionPoint[Callable[[str], str]] = ExtensionPoint("nomemory.tests", ("plain",))

Register = Callable[..., None]


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Register:
    """Install a fake package with entry points."""

    def install(package: str, entries: str, group: str = POINT.group) -> None:
        metadata = tmp_path / package / f"{package}-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{entries}\n")
        monkeypatch.syspath_prepend(tmp_path / package)

    return install


def test_extension_of_an_entry_point_is_loaded(register: Register) -> None:
    register("one", "capital = string:capwords")
    assert POINT.load("capital")("a part") == "A Part"


def test_unknown_name_error_lists_the_known_names(register: Register) -> None:
    register("one", "zest = string:capwords\nbold = string:capwords\nplain = string:capwords")
    with pytest.raises(ExtensionError, match=r"^unknown name 'bald'; available: plain, bold, zest$"):
        POINT.load("bald")


def test_name_registered_by_two_packages_is_rejected(register: Register) -> None:
    register("one", "capital = string:capwords")
    register("two", "capital = string:capwords")
    with pytest.raises(ExtensionError, match=r"^'capital' is registered by several packages: one, two; uninstall all"):
        POINT.load("capital")


@pytest.mark.parametrize("where", ["no_such_module:part", "string:no_such_part"])
def test_extension_import_error_names_the_package(register: Register, where: str) -> None:
    register("one", f"capital = {where}")
    with pytest.raises(ExtensionError, match=r"^cannot import 'capital' from one: .*no_such"):
        POINT.load("capital")


def test_extension_cannot_override_a_built_in_name(register: Register) -> None:
    register("one", "none = string:capwords", EMBEDDERS.group)
    register("two", "jsonl = string:capwords", IMPORTERS.group)
    assert choose_embedder(Settings.from_environment(embedder="none")).kind == "none"
    assert load_format("jsonl")(ImportDefaults()).name == "jsonl"
