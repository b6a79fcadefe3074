"""A session of ONNX Runtime that leaves the other processes room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as engine  # type: ignore[import-untyped]  # it ships without types

from nomemory.server.embedding.local_model import Capacity
from nomemory.server.embedding.vector import batches

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class SideBySide:
    """Computes batches, some of them at once: a model that computes lets go of the interpreter.

    Args:
        at_once: how many.
    """

    def __init__(self, at_once: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, "batch") if at_once > 1 else None

    def computed(
        self,
        texts: Sequence[_In],
        lengths: Sequence[int],
        most: int,
        compute: Callable[[Sequence[_In]], Iterable[_Out]],
    ) -> list[_Out]:
        """Return what is computed of each text, in their order; those of like length go together (`batches`)."""
        places = list(batches(lengths, most))
        together = [[texts[place] for place in batch] for batch in places]
        run = map if self._threads is None or len(places) == 1 else self._threads.map
        found: dict[int, _Out] = {}
        for batch, results in zip(places, run(compute, together), strict=True):
            found.update(zip(batch, results, strict=True))
        return [found[place] for place in range(len(texts))]


RUN_ERRORS: Final = (engine.InvalidArgument, engine.Fail, engine.RuntimeException, engine.NotImplemented)
"""What a model raises that cannot compute what it is given. They have no class in common."""


_ERRORS_ONLY: Final = 3


def session(model: Path, capacity: Capacity) -> onnxruntime.InferenceSession:
    """Load a model.

    Args:
        model: the ONNX file; it may be deleted afterwards.
        capacity: how much a run may use.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = capacity.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Beyond the basic ones, an addition and a layer normalisation become one operator, which is five times as slow.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = capacity.keeps_plans
    options.enable_cpu_mem_arena = False  # an arena keeps what the longest text took
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
