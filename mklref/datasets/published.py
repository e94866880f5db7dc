"""The sets of the papers: where they are to be had, and how their contents are recognised."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Published:
    """One set of published.toml, where the columns and the sources are explained."""

    name: str
    features: tuple[str, ...]
    sha256: str
    """Of the contents: see `remote.fingerprint`. Computed from a copy that agreed with another of another origin."""
    urls: tuple[str, ...] = ()
    openml: int | None = None
    target: int = -1
    unused: tuple[int, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that are called differently at the source."""
    digits: int = 12
    """Significant digits that all copies share."""
    train: int = 0
    """The first so many samples are the training set of the standard split; 0: there is none."""
    train_sha256: str = ""
    """Of the contents of that training set, so that a copy in another order is recognised."""

    @property
    def origin(self) -> str:
        """Where it comes from, for messages."""
        return " and ".join(self.urls) if self.urls else f"https://www.openml.org/d/{self.openml}"


def _published() -> dict[str, Published]:
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {name: Published(name, **_features(entry)) for name, entry in table.items()}


def _features(entry: dict[str, Any]) -> dict[str, Any]:
    """The names of the variables, written out, numbered, or those of a picture."""
    numbered, pixels = entry.pop("numbered", None), entry.pop("pixels", None)
    if numbered:
        width, prefix = numbered.get("width", 1), numbered["prefix"]
        names = [f"{prefix}{i:0{width}d}" for i in range(1, numbered["count"] + 1)]
    elif pixels:
        names = [f"pixel[{i},{j}]" for i in range(pixels[0]) for j in range(pixels[1])]
    else:
        names = entry.pop("features").split()
    lists: dict[str, Any] = {key: tuple(entry.pop(key)) for key in ("urls", "unused") if key in entry}
    return {**entry, **lists, "features": tuple(names)}


PUBLISHED = _published()
"""The sets that `load` can fetch, by name."""
