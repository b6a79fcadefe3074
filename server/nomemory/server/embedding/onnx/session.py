"""ONNX Runtime sessions that use little CPU time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as engine  # type: ignore[import-untyped]

from nomemory.server.embedding.local_model import ModelResources

RUN_ERRORS: Final = (engine.InvalidArgument, engine.Fail, engine.RuntimeException, engine.NotImplemented)
"""Exceptions of a failed model run. They have no common base class."""

_ERRORS_ONLY: Final = 3


def open_session(model: Path, resources: ModelResources) -> onnxruntime.InferenceSession:
    """Open an ONNX Runtime session for a model.

    The file of the model may be deleted while the session is open.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = resources.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Higher levels fuse an addition with the layer normalization, which is five times slower.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = resources.enable_mem_pattern
    options.enable_cpu_mem_arena = False  # the arena would retain the memory of the longest text
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
