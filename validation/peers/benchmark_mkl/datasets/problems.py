"""benchopt: the problems of `validation.benchmarks.problems`."""

from __future__ import annotations

from typing import Any

from benchopt import BaseDataset

from validation.benchmarks.problems import PROBLEMS
from validation.peers.gaps import SIZES


class Dataset(BaseDataset):
    """Kernels, labels and C; MNIST needs MKLREF_DATA."""

    name = "problems"
    parameters = {"problem": list(SIZES), "samples": [None]}  # noqa: RUF012

    def get_data(self) -> dict[str, Any]:
        """As large as in the stored comparison, or with other numbers of samples."""
        kernels, y, C = PROBLEMS[self.problem](self.samples or SIZES[self.problem])
        return {"kernels": kernels, "y": y, "C": C}
