"""Open a session of ONNX Runtime that leaves other processes room."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as engine  # type: ignore[import-untyped]  # it ships without types

from nomemory.server.embedding.local_model import Capacity

RUN_ERRORS: Final = (engine.InvalidArgument, engine.Fail, engine.RuntimeException, engine.NotImplemented)
"""Errors of a model that cannot compute its input. They have no class in common."""

_ERRORS_ONLY: Final = 3


def open_session(model: Path, capacity: Capacity) -> onnxruntime.InferenceSession:
    """Load a model.

    Args:
        model: the ONNX file; it may be deleted afterwards.
        capacity: what a run may use.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = capacity.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Beyond the basic ones, an addition and a layer normalisation become one operator, which is five times as slow.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = capacity.enable_mem_pattern
    options.enable_cpu_mem_arena = False  # an arena keeps what the longest text took
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
