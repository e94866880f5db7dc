"""The colours of lines can be seen on every page, and those of labels be read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from makers import contrast

import mklref.explore
from mklref._display import BLUE, ORANGE, weights
from mklref.plotting.style import COLOURS, FAINT, SETTINGS

matplotlib = pytest.importorskip("matplotlib")

WHITE, BLACK = "#ffffff", "#000000"


def test_lines_can_be_seen_on_light_and_dark_pages_and_labels_can_be_read():
    page = Path(mklref.explore.__file__).with_name("page.html").read_text(encoding="utf-8")
    light, dark = re.findall(r"--background: (#\w+)", page)
    for colour in (*COLOURS, BLUE, ORANGE):
        assert min(contrast(colour, light), contrast(colour, dark)) >= 3.0, colour
    assert contrast(matplotlib.colors.to_hex(FAINT), WHITE) >= 3.0
    assert min(contrast(colour, WHITE) for colour in COLOURS[:2]) >= 4.5  # the labels of the two axes of `path`


def test_ranges_of_weights_can_be_seen_across_their_bars():
    drawn = weights(np.array([0.5]), ["linear"], (np.array([0.2]), np.array([0.7])))
    assert re.search(r'<line [^>]*stroke="([^"]+)"', drawn)[1] == "currentColor"  # nearly black or white
    assert min(contrast(BLUE, BLACK), contrast(BLUE, WHITE)) >= 3.0


def test_pictures_of_the_documentation_have_the_same_colours():
    with matplotlib.rc_context(SETTINGS):
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"] == list(COLOURS)
