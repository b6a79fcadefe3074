"""Detection of CPUs on which products of 8-bit matrices saturate."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Final

_VNNI_FLAGS: Final = frozenset({"avx512_vnni", "avx_vnni"})


@cache
def do_int8_products_saturate() -> bool:
    """Return whether products of unsigned and signed 8-bit matrices may saturate on this CPU.

    Products may saturate on x86-64 without VNNI, where ONNX Runtime adds pairs of products in 16 bits. Products of
    unsigned matrices are slower but exact:
    https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
    """
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return True  # unknown CPU: use unsigned matrices, which are always exact
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return _VNNI_FLAGS.isdisjoint(flags)
