"""Weights to draw, and what a picture shows."""

from __future__ import annotations

import numpy as np

NAMES = ("rbf:1", "poly:2", "rbf:1[age]", "poly:2[age]", "linear[od280/od315 (x)]")
THETA = np.array([0.1, 0.0, 0.4, 0.2, 0.3])


def bars(ax):
    """Name and length of each bar from the top."""
    return {label.get_text(): bar.get_width() for label, bar in zip(ax.get_yticklabels(), ax.patches, strict=True)}


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]
