"""What a page of the explorer is given, without a browser: pictures, read back as numbers, and the server's answers."""

from __future__ import annotations

import io
import itertools
import json
import re
import signal
import socket
import struct
import subprocess
import sys
from base64 import b64decode
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

import mklref
from mklref.exceptions import InvalidParameter, SolverFailure
from mklref.explore import State, app, page, serve, state as states, views, walk, work
from mklref.regularizers import BlockNorm, Fixed, Lp

SMALL = State(samples=20, kernels="rbf:0.5..2:2,linear")
NUMBERS = r"[-\d.]+"


def drawn(picture):
    """The polylines of a picture, of which the axes are the last, and its texts: (x, y, words)."""
    lines = [np.array(points.split(), dtype=str) for points in re.findall(r'<polyline points="(.*?)"', picture)]
    points = [np.array([point.split(",") for point in line], dtype=float).reshape(-1, 2) for line in lines]
    texts = re.findall(rf'<text x="({NUMBERS})" y="({NUMBERS})".*?>(.*?)<', picture)
    return points, [(float(x), float(y), words) for x, y, words in texts]


def heights(picture, scale=float):
    """The curves of a picture as numbers, by the words beside its axis, and places from 0 to 1 along the other one."""
    (*curves, axes), texts = drawn(picture)
    sides = np.array(re.search(r'viewBox="0 0 (\d+) (\d+)"', picture).groups(), dtype=float)
    assert np.all(np.ptp(axes, axis=0) > 0.6 * sides)
    assert np.all((axes >= 0) & (axes <= sides))
    beside = [(y - 4, scale(words)) for x, y, words in texts if x < axes[0, 0]]
    assert {place for place, _ in beside} >= {axes[0, 1], axes[1, 1]}
    (low, least), (high, most) = max(beside), min(beside)
    read = [least + (most - least) * (curve[:, 1] - low) / (high - low) for curve in curves]
    for place, number in beside:
        assert number == pytest.approx(least + (most - least) * (place - low) / (high - low), abs=2e-3 * (most - least))
    return read, [(curve[:, 0] - axes[1, 0]) / (axes[2, 0] - axes[1, 0]) for curve in curves]


def test_curves_have_the_heights_that_the_words_beside_their_axes_say():
    weights = np.array([[0.5, 0.0], [np.nan, np.nan], [0.25, 0.125], [0.0, 0.4]])
    picture = views.paths([1.0, 2.0, 4.0, np.inf], weights, ["a", "b"], 2.0**1.5, "p")
    (a, b, now), (at, _, here) = heights(picture)
    np.testing.assert_allclose([a, b], weights[[0, 2, 3]].T, atol=1e-3)
    np.testing.assert_allclose([*at, *here], [0, 2 / 3, 1, 0.5, 0.5], atol=1e-3)
    np.testing.assert_allclose(now, [0, 0.5], atol=1e-3)
    assert [words for x, _, words in drawn(picture)[1][:2]] == ["1", "4"]
    *_, (at_infinity, _) = heights(views.paths([1.0, np.inf], weights[:2], ["a", "b"], np.inf, "p"))[1]
    assert at_infinity == 1.0

    solution = mklref.solve(states.problem_of(SMALL)[0], tol=1e-3)
    lower, upper = (solution.history.column(name) for name in ("lower", "upper"))
    (above, below), (steps, _) = heights(views.bounds(solution))
    span = np.ptp([above, below])
    seen = slice(-3, None)  # what is far away stands at the rim
    np.testing.assert_allclose([below[seen], above[seen]], [lower[seen], upper[seen]], atol=5e-3 * span)
    np.testing.assert_allclose(steps, np.linspace(0, 1, len(lower)), atol=1e-3)
    (upper_line, lower_line, axes), texts = drawn(views.bounds(solution))
    between = re.search('<polygon points="(.*?)"', views.bounds(solution))[1].replace(",", " ").split()
    np.testing.assert_allclose(np.reshape(between, (-1, 2)).astype(float), [*lower_line, *upper_line[::-1]])
    numbers = [(x, words) for x, y, words in texts if y > axes[1, 1] + 10 and words.isdecimal()]
    assert numbers == [(axes[1, 0], "1"), (axes[2, 0], str(len(lower)))]
    (powers,), (steps,) = heights(views.gaps(solution), lambda words: np.log10(float(words)))
    np.testing.assert_allclose(steps, np.linspace(0, 1, len(lower)), atol=1e-3)
    relative = np.maximum((upper - lower) / solution.certificate.size, 1e-16)
    np.testing.assert_allclose(powers, np.log10(relative), atol=0.02)


def test_a_field_shows_its_function_where_the_dots_of_its_samples_are():
    image_of = pytest.importorskip("matplotlib.image").imread
    shown, _ = work.solved(SMALL, {})
    X, beta = states.sample_of(SMALL).X, np.abs(shown.solution.dual_coef)
    picture = page.decision(shown).partition("</svg>")[0]
    numbers = rf'cx="({NUMBERS})" cy="({NUMBERS})" r="{NUMBERS}" fill="(.*?)" stroke="(.*?)" stroke-width="({NUMBERS})"'
    dots = re.findall(numbers, picture)
    assert [white == "#ffffff" for _, _, white, *_ in dots] == list(shown.problem.y > 0)
    widths = np.array([float(width) * (ring == "#ffd21f") for *_, ring, width in dots])
    np.testing.assert_allclose(widths, np.where(beta > 0.0, 0.5 + 2.0 * beta / beta.max(), 0.0), atol=0.051)
    pixels = np.array([[*dot[:2], 1.0] for dot in dots], dtype=float)
    to_data, *_ = np.linalg.lstsq(pixels, X)
    np.testing.assert_allclose(pixels @ to_data, X, atol=2e-3)
    assert np.all(
        (pixels[:, :2] > 0.0) & (pixels[:, :2] < np.array(re.search('0 0 (.*?) (.*?)"', picture).groups(), float))
    )

    png, sides = re.search(r'base64,(.*?)" (x=.*?) preserve', picture).groups()
    left, top, width, height = map(float, re.findall(f'"({NUMBERS})"', sides))
    colours = image_of(io.BytesIO(b64decode(png)))
    rows, columns = (np.arange(0.5, k) / k for k in colours.shape[:2])
    middles = np.stack([*np.meshgrid(left + width * columns, top + height * rows), np.ones(colours.shape[:2])], axis=-1)
    f = shown.solution.decision_function(shown.kernels.new(middles.reshape(-1, 3) @ to_data))
    most = np.abs(f).max()
    red, _, blue = 255.0 * (1.0 - colours.reshape(-1, 3).T)
    seen = np.where(red < blue, blue / 253.0, -red / 224.0)  # what each colour takes away of the other one
    np.testing.assert_allclose(np.sign(seen) * np.abs(seen) ** (1 / 0.7), f / most, atol=0.01)
    assert f"within ±{most:.3g}<" in picture


def test_parts_are_shown_from_the_largest_on_five_at_most_and_only_positive_targets_are_white():
    blocks = np.ones((7, views.GRID**2, 2))
    blocks[0, 0] = 100.0  # a peak of the kernel of the smallest weight
    solution = SimpleNamespace(
        weights=np.array([0.1, 0.7, 0.0, 0.3, 0.2, 0.6, 0.5]), dual_coef=np.array([1.0, -0.5]), intercept=0.25
    )
    picture = views.decision(np.eye(2), np.array([0.0, 1.0]), blocks, list("abcdefg"), solution)
    titles = [f"{title}: {most}" for title, most in re.findall(r"<title>(f[^<]*), within ±([^<]*)<", picture)]
    assert titles == ["f, all together: 6.4", "f[a]: 5", "f[b]: 0.35", "f[f]: 0.3", "f[g]: 0.25", "f[d]: 0.15"]
    assert re.findall(r'fill="(#0{6}|#f{6})"', picture) == ["#000000", "#ffffff"] * len(titles)
    assert "more" not in views.legend(["a"] * views.MOST)


def test_a_step_of_a_walk_is_an_arrow_from_box_to_box():
    picture = walk.graph("Lp", [("Lp", "Power"), ("Power", "Groups")], [])
    arrows = re.findall(
        r'<path d="M([^"]*)Q([^"]*)"[^<]*width="3.0"[^<]*<polygon points="(.*?)"[^<]*<circle (.*?)r=.*?>(\d)</text>',
        picture,
    )
    assert [number for *_, number in arrows] == ["1", "2"]
    for (*drawn, _), (left, right) in zip(arrows, (("Lp", "Power"), ("Power", "Groups")), strict=True):
        points = (np.array(re.findall(NUMBERS, one), dtype=float).reshape(-1, 2) for one in drawn)
        (start,), (bend, end), (tip, *feet), (number,) = points
        centres = np.array([walk.PLACES[left][:2], walk.PLACES[right][:2]], dtype=float)
        away = np.abs(np.array([start, end]) - centres) / (0.5 * np.array(walk.BOX) + 2.0)
        np.testing.assert_allclose(away.max(axis=1), 1.0, atol=0.01)
        (x, y), aside = (
            np.diff(centres, axis=0)[0] / np.hypot(*np.diff(centres, axis=0)[0]),
            bend - centres.mean(axis=0),
        )
        np.testing.assert_allclose(aside, [14.0 * y, -14.0 * x], atol=0.1)  # to its left
        np.testing.assert_allclose(number, 0.25 * start + 0.5 * bend + 0.25 * end, atol=0.1)
        np.testing.assert_array_equal(tip, end)
        sides = [np.hypot(*(one - other)) for one, other in itertools.combinations([tip, *feet], 2)]
        assert sides == pytest.approx([80.0**0.5, 80.0**0.5, 8.0], abs=0.2)


@pytest.mark.parametrize(
    ("regularizer", "says"),
    [
        (Lp(1), "their ranges are computed"),
        (Lp(1.5), "no other weights"),
        (BlockNorm(1), "their ranges are computed"),
        (BlockNorm(2), "no other weights"),
        (BlockNorm(3), "for p = 1 of an lp ball and q = 1 of a block norm alone"),
        (Fixed([1.0, 2.0, 3.0]), "for p = 1 of an lp ball and q = 1 of a block norm alone"),
    ],
)
def test_what_is_known_of_other_weights_is_said(regularizer, says):
    assert says in page._how_unique(regularizer)


def test_beside_a_formulation_stands_the_other_side_of_duality():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    shown, _ = work.solved(replace(SMALL, p="1"), {})
    for name in page.formulations(shown):
        other = "primal" if name in ("dual", "qcqp", "silp", "semi_infinite") else "dual"
        assert f"<h3>Its {other}</h3>" in page.statement(shown, name)


@pytest.mark.parametrize("data", states.GENERATED)
@pytest.mark.parametrize("regularizer", states.REGULARIZERS)
def test_a_control_is_idle_exactly_if_it_changes_nothing(data, regularizer):
    here = replace(SMALL, data=data, regularizer=regularizer)
    others = {"noise": 0.7, "share": 0.8, "positive": "1", "p": "1.5", "lam": 0.7, "groups": "0 | 1 2"}

    def made(state):
        return states.sample_of(state).X.tobytes(), repr(states.REGULARIZERS[regularizer](state, 3))

    same = {name for name, other in others.items() if made(replace(here, **{name: other})) == made(here)}
    assert page.idle(data, regularizer) == same


# --- the server: its ports, pages that are closed, and how it ends --------------------------------------------------


def test_a_port_in_use_is_left_to_its_owner():
    with serve.listen(0) as first:
        port = first.getsockname()[1]
        with serve.listen(port) as second:
            assert port < second.getsockname()[1] <= port + serve.TRIED
            assert second.getsockname()[0] == "127.0.0.1"
    with pytest.raises(InvalidParameter, match="65535"):
        serve.listen(70000)


@pytest.mark.skipif(sys.platform == "win32", reason="a port would be shared there")
def test_a_port_whose_last_page_still_lingers_is_taken_again():
    with serve.listen(0) as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as page:
            answer, _ = first.accept()
            answer.close()  # the server ends first, and the connection lingers
            page.recv(1)
    with serve.listen(port) as second:
        assert second.getsockname()[1] == port


def asking(address, what):
    """A connection that has asked for it."""
    page = socket.create_connection(address)
    page.sendall(f"GET /{what} HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\n\r\n".encode())
    return page


def reset(page):
    page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    page.close()


def test_an_answer_that_is_whole_says_so(monkeypatch):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    monkeypatch.setattr(app, "panels", lambda *given: iter([("optimum", "1")]))
    with (
        serve.Server(serve.listen(0), "token") as server,
        asking(server.server_address, "panels?access_token=token") as page,
    ):
        server.process_request_thread(*server.get_request())
        answer = page.makefile(encoding="utf-8").read()
    assert [json.loads(line) for line in answer.splitlines()[-2:]] == [["optimum", "1"], ["end", ""]]


@pytest.mark.parametrize("fault", [ZeroDivisionError("ours"), None])
def test_a_fault_of_ours_is_shown_whether_the_page_is_closed_or_not_and_that_it_is_closed_is_none(
    monkeypatch, capsys, fault
):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")

    with serve.Server(serve.listen(0), "token") as server:
        page = asking(server.server_address, "panels?access_token=token")

        def closed(*given):
            reset(page)
            if fault:
                raise fault
            yield "optimum", ""

        monkeypatch.setattr(app, "panels", closed)
        server.process_request_thread(*server.get_request())
    assert ("ZeroDivisionError: ours" in capsys.readouterr().err) is (fault is not None)


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no Ctrl-C for a process alone there")
def test_ctrl_c_ends_it_well_whatever_pages_do():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "mklref", "explore", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background may ignore it
    ) as process:
        port, query = re.search(r":(\d+)/\?(\S+)", process.stdout.readline()).groups()
        pages = [asking(("127.0.0.1", int(port)), what) for what in (f"panels?{query}&page=a", f"panels?{query}", "")]
        assert all(page.recv(1) for page in pages)  # each has an answer, or its beginning
        reset(pages[0])
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    for own in pages:
        own.close()
    assert (process.returncode, err) == (0, "")


def test_nobody_computes_for_a_page_that_has_asked_anew():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    with serve.Server(serve.listen(0), "token") as server:
        memory, stopped = server.ask("page", lambda: False)
        answer = app.panels(SMALL, memory, stopped)
        assert any(name == "optimum" for name, _ in answer)  # and no further
        server.ask("another page", lambda: False)
        assert not stopped()
        assert server.ask("page", lambda: True)[1]()
        assert stopped()
        assert [name for name, _ in answer] == []
        for k in range(serve.PAGES):
            server.ask(str(k), lambda: False)
        assert set(server.pages) == set(map(str, range(serve.PAGES)))
        for name in ("0", "new"):
            server.ask(name, lambda: False)
        assert {*server.pages} == {*map(str, range(serve.PAGES)), "new"} - {"1"}  # the one not asked for longest goes


def test_what_changes_nothing_is_walked_once():
    steps = walk.walk(work.solved(SMALL, {})[0])
    unchanged = {edge.name for edge in mklref.equivalences.EQUIVALENCES if edge.parameters == mklref.equivalences.NONE}
    names = [way for _, way in steps.leaving if way in unchanged]
    assert names
    for name in names:
        further = walk.walk(work.solved(replace(SMALL, walk=name), {})[0])
        assert further.taken == name
        assert f"{name}|{name}" not in [way for _, way in further.leaving]


def test_without_finite_bounds_there_is_no_picture_of_them():
    history = SimpleNamespace(column=lambda _: np.array([np.inf, np.inf]))
    nothing = SimpleNamespace(history=history, certificate=SimpleNamespace(size=1.0))
    with np.errstate(invalid="ignore"):
        assert (views.bounds(nothing), views.gaps(nothing)) == ("", "")


def test_a_conic_solver_that_fails_is_said_beside_its_formulation(monkeypatch):
    monkeypatch.setattr(work.reference, "solve", Mock(side_effect=SolverFailure("none solved it\nby its own word")))
    stated = work._stated.__wrapped__(SMALL, "dual")
    assert (stated.value, *stated[2:]) == (None, "none solved it")


def test_dots_of_numbers_are_not_called_labels(tmp_path):
    (tmp_path / "my.csv").write_text("\n".join(["a,b,y", *(f"{k % 7},{k % 5},{1.5 * k}" for k in range(30))]))
    shown, _ = work.solved(replace(SMALL, data=str(tmp_path / "my.csv"), loss="squared"), {})
    assert "white is y &gt; 0, black y ≤ 0" in page.decision(shown)
    (tmp_path / "huge.csv").write_text("\n".join(["a,b,y", *(f"{k % 7},{k % 5},{k}e299" for k in range(30))]))
    huge, _ = work.solved(replace(SMALL, data=str(tmp_path / "huge.csv"), loss="squared"), {})
    np.testing.assert_allclose(huge.problem.y, shown.problem.y)
    np.testing.assert_allclose([huge.problem.y.mean(), huge.problem.y.std()], [0.0, 1.0], atol=1e-12)
    assert "white is +1, black −1" in page.decision(work.solved(SMALL, {})[0])


def test_a_value_beside_the_interval_is_said_to_be_beside_it():
    x, y = np.array([-1, 0.5, 1.5]), np.array([1.0, -1, 1])  # the first lesson, whose optimum is 2
    problem = mklref.Problem([np.outer(x, x), np.outer(x, x) ** 2], y, C=3)
    bounds = mklref.certify(problem, [1.6, -2.0, 0.4], weights=[1 / 3, 2 / 3])
    beside = {2.0: "inside", 2 + 1e-6: "at the interval: 1e-06 above it", 1.9: "off the interval: 1e-01 below it"}
    for value, says in beside.items():
        assert says in page._judged(work.Stated(value, 0.1, "dual/CLARABEL"), bounds)
