"""Pictures of kernels, solutions and models.

Each function draws on the Axes that it is given as `ax`, or on new ones, and returns them. matplotlib is imported by
the first call, which ends in `MissingExtra` where it is not installed. What cannot be drawn is refused: what is of
another kind by `InvalidType`, what is not finite or does not fit the rest by `InvalidInput`, an option by
`InvalidParameter`.

    from mklref import plotting
    ax = plotting.weights(model)
    ax.figure.savefig("weights.png")
"""

from mklref.plotting.bars import contributions, stability, weights
from mklref.plotting.matrices import alignment, intervals, sparsity
from mklref.plotting.paths import gap, path, validation, weight_paths
from mklref.plotting.style import COLOURS, SETTINGS
from mklref.plotting.surface import surface

__all__ = [
    "COLOURS",
    "SETTINGS",
    "alignment",
    "contributions",
    "gap",
    "intervals",
    "path",
    "sparsity",
    "stability",
    "surface",
    "validation",
    "weight_paths",
    "weights",
]
