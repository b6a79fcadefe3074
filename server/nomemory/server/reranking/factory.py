"""Makes the reranker of the settings."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from nomemory.server.processes.watch import Vigil
from nomemory.server.reranking.reranker_process import RerankerProcess
from nomemory.server.settings import Settings

_FILES: Final = ("model.onnx", "tokenizer.json")


class RerankerSettingsError(ValueError):
    """The settings do not describe a reranker; the text says what to do."""


def choose_reranker(settings: Settings, vigil: Vigil) -> RerankerProcess | None:
    """Make the reranker; None if there is to be none. Nothing is started yet.

    Raises:
        RerankerSettingsError: its files or its packages are not there.
    """
    model = settings.reranker.model
    if not model:
        return None
    _refuse_missing(model)
    return RerankerProcess(model, settings.reranker.threads, settings.reranker.timeout_s, vigil)


def _refuse_missing(model: str) -> None:
    if not Path(model).is_dir():
        if os.sep in model and Path(model).is_absolute():
            raise RerankerSettingsError(f"NOMEMORY_RERANKER: there is no directory {model}")
        _refuse_without("fastembed", "fastembed", f"{model!r} is no directory, and to find it by name")
        return
    absent = [name for name in _FILES if not (Path(model) / name).is_file()]
    if absent:
        raise RerankerSettingsError(f"NOMEMORY_RERANKER: {model} has no {' and no '.join(absent)}")
    _refuse_without("onnxruntime", "rerank", "to run it")
    _refuse_without("tokenizers", "rerank", "to run it")


def _refuse_without(package: str, extra: str, purpose: str) -> None:
    if find_spec(package) is None:
        raise RerankerSettingsError(f"NOMEMORY_RERANKER: {purpose} takes the package {package}: nomemory[{extra}]")
