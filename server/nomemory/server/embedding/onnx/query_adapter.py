"""Low-rank changes to weight matrices (LoRA, https://arxiv.org/abs/2106.09685) that are trained for queries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

QUERY_ADAPTER: Final = Path(__file__).with_name("query_adapter.npz")
"""The adapter of the package's model. `scripts/train_query_adapter` trains it; documents are embedded without it."""


class LowRankAdapter:
    """The changes to a model's weight matrices.

    Args:
        path: an archive with two float16 matrices for each changed weight matrix: `NAME.up` of shape (outputs, rank)
            and `NAME.down` of shape (rank, inputs). The product of the two matrices is added to the weight matrix.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path, allow_pickle=False) as archive:
            self._factors = {name: archive[name].astype("<f4") for name in archive.files}

    def adapt(self, name: str, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return a weight matrix of shape (outputs, inputs), plus its change if there is one."""
        if f"{name}.up" not in self._factors:
            return matrix
        return np.asarray(matrix + self._factors[f"{name}.up"] @ self._factors[f"{name}.down"], "<f4")
