"""The explorer without a browser: its addresses, what bad input does, and its code."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import asdict, replace
from html import unescape
from time import perf_counter
from unittest.mock import Mock

import numpy as np
import pytest
from makers import agree

import mklref
from mklref._display import outwards
from mklref._files import SUFFIXES
from mklref.exceptions import InvalidParameter, MissingExtra
from mklref.explore import State, app, page, serve, state as states, views, walk, work

SMALL = State(samples=20, kernels="rbf:0.5..2:2,linear")
NOTHING = replace(SMALL, data="diabetes", kernels="linear", loss="one_class", p="1")  # f = 0 is best


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """No test depends on a clock: what is shown at once is finished, and a hand soon rests."""
    for name, seconds in (("SOLVING", 1e3), ("REST", 0.05), ("PAUSE", 0.06)):
        monkeypatch.setattr(work, name, seconds)


def test_an_address_holds_every_state():
    everything = State("rings", 40, 0.5, 0.1, "a", "linear", "squared", "groups", "2", 0.3, 1.78, "0", "qcqp", "x|y")
    assert State.from_query({name: str(value) for name, value in asdict(everything).items()}) == everything
    assert State.from_query({}) == State()
    assert State.from_query({"C": "no number", "samples": "30", "other": "1"}) == State(samples=30)
    assert State.from_query({"C": "12", "noise": "9", "samples": "-3", "lam": "nan"}) == State(samples=20, noise=1.0)
    assert State.from_query({"C": "inf"}) == State.from_query({"C": "1e9"}) == State(C=1000.0)
    assert State.from_query({"samples": "33", "lam": "0.12", "noise": "0.33"}) == State(samples=30, lam=0.1, noise=0.35)
    assert State.from_query({"kernels": "linear," * 200}).kernels == "linear," * 200
    assert State.from_query({"loss": "none", "regularizer": "", "p": "7"}) == State()  # what no list offers
    assert everything.after("z") == "x|y|z"
    assert everything.before() == "x"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(states.REGULARIZERS))
def test_every_regulariser_of_the_page_is_solved_shown_and_reproduced_by_its_code(name):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    shown, complaint = work.solved(replace(SMALL, regularizer=name), {})
    assert complaint == {}
    assert shown.solution.certificate.is_optimal(1e-5)
    names: dict[str, object] = {}
    exec(compile(copied(shown), "code", "exec"), names)
    again = names["solution"].certificate
    agree(again, shown.solution)
    for formulation in page.formulations(shown):
        assert page.statement(shown, formulation).count("<math") == 3
        assert "cp" in text_of(page.primer(formulation))


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"kernels": "rbf:"}, "kernels", "is not understood"),
        ({"data": "/no/such.csv"}, "data", "No such file"),
        ({"data": "no\0path"}, "data", "a name that no file can have"),
        ({"data": "diabetes", "samples": 40}, "data", "is a number; choose a loss for numbers, such as squared"),
        ({"kernels": "rbf(0.1..10, 101)"}, "kernels", "at most 100"),
        ({"data": "iris"}, "data", "3 classes (setosa, versicolor, virginica); write into the box 'positive class'"),
        ({"regularizer": "groups", "groups": "0 | x"}, "problem", "numbers of kernels"),
        ({"regularizer": "groups", "groups": "0 | 9"}, "problem", "9"),
        ({"p": "one"}, "problem", "no number"),
    ],
)
def test_bad_input_is_said_beside_its_control_and_the_last_picture_stays(change, place, says):
    memory: dict[str, object] = {}
    good, _ = work.solved(SMALL, memory)
    shown, complaint = work.solved(replace(SMALL, **change), memory)
    assert shown is good
    assert "moons, 20 samples, kernels rbf:0.5..2:2,linear, loss hinge" in page.again(complaint, shown)
    assert list(complaint) == [place]
    assert says in complaint[place]
    first, complaint = work.solved(replace(SMALL, **change), {})  # an address that begins with bad input
    assert list(complaint) == [place]
    assert first.state == State()


def test_moons_and_rings_are_arcs_and_circles_with_noise_and_a_toy_has_its_share():
    def as_drawn(data, t, y):
        if data == "rings":
            return [(0.5 if y > 0 else 1.0) * x for x in (np.cos(2 * t), np.sin(2 * t))]
        return [np.cos(t), np.sin(t)] if y > 0 else [1.0 - np.cos(t), 0.5 - np.sin(t)]

    for data in ("moons", "rings"):
        rng, made = np.random.default_rng(0), states.generated(data, 21, 0.3, 0.2)  # as many of each
        angles, labels = rng.uniform(0.0, np.pi, size=22), [1.0] * 11 + [-1.0] * 11
        X = [as_drawn(data, t, y) for t, y in zip(angles, labels, strict=True)] + 0.2 * rng.normal(size=(22, 2))
        np.testing.assert_allclose(made.X, (X - np.mean(X, axis=0)) / np.std(X, axis=0), atol=1e-12)
        assert (made.y.tolist(), made.labels) == (labels, True)
    toy = mklref.datasets.kloft_toy(np.random.default_rng(0), 20, relevant=3, d=10)
    np.testing.assert_array_equal(states.generated("toy", 20, 0.3, 0.2).X, toy.X)


def test_a_table_is_read(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b in rng.normal(size=(30, 2))]
    (tmp_path / "my.csv").write_text("\n".join(["a,b,class", *rows]))
    shown, complaint = work.solved(replace(SMALL, data=str(tmp_path / "my.csv")), {})
    assert complaint == {}
    assert shown.problem.n_samples == 20
    assert page.decision(shown).count("<svg") == 1 + np.sum(shown.solution.weights > 0)
    assert "a to the right, b upwards" in page.decision(shown)


def test_code_has_the_data_of_the_page_wherever_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").write_text("a,class\n" + "1,0\n2,1\n3,1\n4,0\n" * 10)
    own = {"data": "my.csv", "kernels": "linear"}
    for change in ({"loss": "one_class"}, {"data": "iris", "positive": "setosa"}, own, {"loss": "squared"}):
        shown, _ = work.solved(replace(SMALL, **change), {})
        code, names = compile(copied(shown), "code", "exec"), {}
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(tmp_path.parent)
            work.forget()
            exec(code, names)
        np.testing.assert_array_equal(names["problem"].y, shown.problem.y)
        assert names["problem"].kernels.recipe == shown.problem.kernels.recipe
        assert names["problem"].loss == shown.problem.loss


def test_what_became_of_empty_and_mixed_cells_is_said(tmp_path):
    pytest.importorskip("pandas", reason="the extra 'tables' is not installed")
    rows = [f"{k},{'' if k == 3 else k % 5},{'red' if k % 2 else 'blue'},{k % 2 if k else ''}" for k in range(24)]
    (tmp_path / "mixed.csv").write_text("\n".join(["a,b,colour,class", *rows]))
    state = replace(SMALL, data=str(tmp_path / "mixed.csv"))
    assert work.solved(state, {})[1] == {}
    assert "colour" in page.read(state)
    assert "1 of 24 rows have no target and are left out." in page.read(state)
    assert page.read(SMALL) == page.read(replace(SMALL, data="/no/such.csv")) == ""


def test_the_groups_that_are_shown_can_be_typed():
    shown, _ = work.solved(replace(SMALL, regularizer="groups"), {})
    assert "<code>0 1 | 2</code>" in page.groups(shown)
    assert states.grouping("0 1 | 2", 3) == [list(group) for group in shown.problem.regularizer.groups]
    assert [states.grouping("", M) for M in (1, 2, 3)] == [[[0]], [[0], [1]], [[0, 1], [2]]]


def test_data_that_are_no_table_start_no_server(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "listen", lambda _: pytest.fail("it is served"))
    said = dict.fromkeys((tmp_path / f"model{suffix}" for suffix in (*SUFFIXES, ".NPZ")), "no table")
    for file in said:
        file.touch()
    for data, what in {"moonz": "no file that is there", "absent.csv": "no file that is there", **said}.items():
        with pytest.raises(InvalidParameter, match=f"is {what}, and not one of moons"):
            serve.explore(0, browser=False, data=str(data))
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"the explorer needs math_core; install it by: pip install"):
        serve.explore(0, browser=False)


ENDS = r'text-anchor="end" fill="currentColor">(.*?)<'
LINES = r'(stroke="#.*?>)<title>', r"(color:.*?)</span>"


def test_the_ends_of_a_narrow_interval_are_told_apart():
    solution = mklref.solve(states.problem_of(SMALL)[0], tol=1e-6)
    again = mklref.solve(states.problem_of(SMALL)[0], tol=1e-6, start=solution)
    for one in (again, mklref.solve(states.problem_of(NOTHING)[0])):
        assert len(set(re.findall(ENDS, views.bounds(one)))) == 3
    assert re.findall(ENDS, views.paths([1.0, 2.0], np.zeros((2, 1)), ["K"], None, "C")) == ["0", "1"]


def test_pictures_hold_the_numbers():
    shown, _ = work.solved(replace(SMALL, p="1"), {})
    html = page.optimum(shown, page.ranges(shown))
    assert outwards(shown.solution.certificate.lower, shown.solution.certificate.upper)[0] in html
    assert "as good within" in html
    heights = [float(y) for y in re.findall('cy="(.*?)"', views.gaps(shown.solution))]
    assert views.TOP <= min(heights) <= max(heights) <= 160 - views.BOTTOM
    assert page.paths(shown).count("<polyline") == 2 * (3 + 1 + 1)  # three kernels, a line, axes
    assert page.paths(shown).count("<circle") == 0
    assert "20 more follow" in page.paths(shown)
    assert work.extend(shown)
    assert page.paths(shown).count("<circle") == 20 * 3
    assert "follow" not in page.paths(shown)
    many = views.paths([1.0, 2.0], np.ones((2, 9)), list("abcdefghi"), None, "C"), views.legend(list("abcdefghi"))
    looks = [re.findall(pattern, html) for pattern, html in zip(LINES, many, strict=True)]
    assert [len(set(look)) for look in looks] == [9, 9]
    assert "and 1 more" in views.legend(list(map(str, range(views.MOST + 1))))
    assert "more" not in many[1]
    points, *_ = views.grid_of(states.sample_of(SMALL).X)
    parts = views.parts(shown.solution, shown.kernels.new(points))
    f = shown.solution.decision_function(shown.kernels.new(points))
    np.testing.assert_allclose(parts.sum(axis=0) + shown.solution.intercept, f, atol=1e-12)


def test_ranges_that_are_not_known_leave_their_reason_and_the_rest_of_the_page(monkeypatch):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    monkeypatch.setattr(work, "_stated", lambda *_: work.Stated(None, 0.0, "nothing"))  # which takes longest
    said = list(app.panels(NOTHING, {}, lambda: False))
    assert [html for name, html in said if name == "optimum"][-1].count("Ranges of the weights are not known") == 1
    assert said[-1][0] == "values"


def test_every_formulation_states_a_value_within_the_interval():
    shown, _ = work.solved(SMALL, {})
    tables = list(page.values(shown, lambda: False))
    last = tables[-1]
    assert last.count("inside the interval") + last.count("at the interval") == len(tables)
    assert len(tables) == len(page.formulations(shown))
    assert list(page.values(shown, lambda: True)) == []


def test_nobody_who_moves_on_leaves_a_second_conic_solver_at_work(monkeypatch):
    shown, _ = work.solved(SMALL, {})
    begun, go_on, at_work = threading.Event(), threading.Event(), []

    def stated(state, name):
        at_work.append(name)
        begun.set()
        go_on.wait(60)
        return work.Stated(0.0, 0.0, name)

    monkeypatch.setattr(work, "_stated", stated)
    monkeypatch.setattr(work, "PAUSE", 0.0)
    first = threading.Thread(target=lambda: list(work.conic(shown, go_on.is_set)))
    first.start()
    assert begun.wait(60)
    asked = iter([False, False, True])  # the second one looks twice, and moves on
    assert list(work.conic(shown, lambda: next(asked, True))) == []
    go_on.set()
    first.join(60)
    assert len(at_work) == 1


def test_a_file_is_read_once_as_long_as_it_stays_the_same(tmp_path, calls_of):
    path, reads = tmp_path / "my.csv", calls_of(states.datasets, "read_csv")
    for text in ("a,class\n" + "1,0\n2,1\n" * 20, "a,class\n" + "1,0\n3,1\n4,1\n" * 20):
        path.write_text(text)
        for samples in (20, 30):
            work.forget()
            assert work.solved(replace(SMALL, data=str(path), samples=samples), {})[1] == {}
    assert len(reads) == 2


def test_pictures_of_a_file_that_was_changed_are_those_of_what_it_holds_now(tmp_path):
    state, memory = replace(SMALL, data=str(tmp_path / "my.csv"), samples=50), {}
    for seed, n in enumerate((40, 40, 50)):
        rows = [f"{a},{b},{a > 0}" for a, b in np.random.default_rng(seed).normal(size=(n, 2))]
        (tmp_path / "my.csv").write_text("\n".join(["a,b,class", *rows]))
        work.forget()  # as whoever opens the page again does
        shown, _ = work.solved(state, memory)
        afresh, _ = work.solved(state, {})
        X = states.sample_of(state).X
        blocks = afresh.kernels.new(views.grid_of(X)[0])
        picture = views.decision(X, afresh.problem.y, blocks, afresh.names, afresh.solution)
        assert page.decision(shown).startswith(picture)


def test_the_path_over_p_has_a_line_where_the_problem_has_a_p():
    for regularizer, lines in (("lp ball (Ivanov)", 1), ("groups", 0), ("elastic net (Ivanov)", 0), ("block norm", 0)):
        shown, _ = work.solved(replace(SMALL, regularizer=regularizer), {})
        assert page.paths(shown).count("<polyline") == 2 * (3 + 1) + 1 + lines


def test_the_path_over_C_begins_where_the_problem_does():
    shown, _ = work.solved(replace(SMALL, loss="one_class", C=0.01), {})
    (path, now), _ = work.paths_of(shown)
    assert path.values[0] == now == shown.problem.C == 1 / 20
    assert path.values[-1] == work.PATH_C[-1]
    assert states.problem_of(replace(SMALL, C=0.01))[0].C == 0.01  # which only an intercept with a cost bounds


@pytest.mark.parametrize(("status", "known"), [("TIME_LIMIT", []), ("OPTIMAL", [4, 3, 5, 2, 6, 1, 7, 0, 8, 9, 10])])
def test_dots_are_finished_solutions_from_the_present_value_outwards(monkeypatch, status, known):
    (path, _), _ = work.paths_of(shown := work.solved(SMALL, {})[0])
    monkeypatch.setattr(work, "solve", lambda *_, **__: replace(shown.solution, status=mklref.Status[status]))
    path = path._replace(found={})  # the page remembers its own
    assert path.extend(path.values[4], shown.solution, perf_counter() + 20.0, lambda: False) is bool(known)
    assert list(path.found) == known


def test_a_value_without_an_optimum_leaves_a_gap_in_the_path_and_whoever_moves_on_no_path(monkeypatch):
    (path, _), _ = work.paths_of(shown := work.solved(SMALL, {})[0])
    path = path._replace(found={})
    assert not path.extend(path.values[4], shown.solution, perf_counter() + 20.0, lambda: True)
    monkeypatch.setattr(work, "solve", Mock(side_effect=InvalidParameter("the optimum is -inf")))
    assert path.extend(path.values[4], shown.solution, perf_counter() + 20.0, lambda: False)
    assert set(path.found) == set(range(len(path.values)))
    assert np.isnan(path.weights).all()


def test_a_long_solve_shows_what_is_proved_and_is_finished_later(monkeypatch):
    monkeypatch.setattr(work, "SOLVING", 1e-9)
    hard, memory = replace(SMALL, regularizer="groups", C=1000.0), {}
    first, _ = work.solved(hard, memory)
    assert not first.finished
    assert "goes on" in page.optimum(first)
    assert work.finish(first, memory, lambda: True) is None  # whoever moves on does not wait for it
    assert work.finish(first, memory, lambda: False).finished
    last, _ = work.solved(replace(hard, formulation="qcqp"), memory)
    assert last.solution.certificate.is_optimal(work.TOL)
    assert last.solution.certificate.lower >= first.solution.certificate.lower


@pytest.mark.thorough
def test_the_panel_of_a_long_solve_is_drawn_again_once_it_is_finished(monkeypatch):
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    monkeypatch.setattr(work, "SOLVING", 1e-9)
    panels = app.panels(replace(SMALL, regularizer="groups", C=1000.0), {}, lambda: False)
    goes_on = ["goes on" in html for name, html in panels if name == "optimum"]
    assert goes_on[0]
    assert not goes_on[-1]


def test_a_walk_carries_the_optimum_from_ivanov_to_tikhonov_to_block_norm():
    walked = replace(SMALL, walk="lp: weights and norms|lp to power|power to lp|ivanov to tikhonov")
    shown, _ = work.solved(walked, {})
    steps = walk.walk(shown)
    gaps = [float(row.rsplit("<td>", 1)[1].partition("<")[0]) for row in steps.table.split("</tr>")[2:-1]]
    assert len(gaps) == 4
    assert max(gaps) < 1e-5
    assert ["nothing changes" in row for row in steps.table.split("</tr>")[2:-1]] == [True, False, False, False]
    assert "Tikhonov(" in steps.table
    names: dict[str, object] = {}
    exec(compile(copied(shown, steps.taken), "code", "exec"), names)
    assert str(names["problem"].regularizer) in steps.table.split("</tr>")[-2]
    optima = [float(row.split("<td>")[4].partition(" ")[0]) for row in steps.table.split("</tr>")[1:-1]]
    assert optima[3] == pytest.approx(optima[0], rel=1e-5)  # there and back
    assert "4 steps from Ivanov: lp ball, now at Tikhonov" in steps.picture
    assert steps.before == "lp: weights and norms|lp to power|power to lp"
    tikhonov = shown.problem.replace(regularizer=mklref.Tikhonov(4 / 3, 1.0))
    leaving = [edge.name for edge in mklref.equivalences.leaving(tikhonov)]
    assert [words.partition(" → ")[0] for words, _ in steps.leaving] == leaving
    assert [way for _, way in steps.leaving] == [walked.after(name) for name in leaving]


def test_a_walk_goes_on_where_it_ends_when_its_steps_do_not_apply_any_more():
    shown, _ = work.solved(replace(SMALL, regularizer="elastic net (Ivanov)", walk="lp to power|power to lp"), {})
    steps = walk.walk(shown)
    assert "0 steps from elastic net" in steps.picture
    assert steps.leaving
    assert not [way for _, way in steps.leaving if "lp to power" in way]
    assert steps.taken == ""


def test_every_regulariser_of_the_page_and_every_equivalence_has_a_place_in_the_graph():
    for make in states.REGULARIZERS.values():
        assert type(make(SMALL, 3)).__name__ in walk.PLACES
    for edge in mklref.equivalences.EQUIVALENCES:
        assert set(walk.ends(edge)) <= set(walk.PLACES)


def text_of(html):
    """What a reader sees of it."""
    return unescape(re.sub(r"<[^>]*>", "", html))


def copied(shown, walked=""):
    """The code of what is shown, as a browser copies it, without its conic solver."""
    return text_of(page.code(shown, "dual", walked)).replace("print(mklref.reference", "pass  # print(")


def test_the_interval_comes_first_then_everything_that_follows_from_it_and_the_conic_solvers_last():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    memory, last = {}, {}
    for name, html in app.panels(replace(SMALL, formulation="tikhonov"), memory, lambda: False):  # it has none here
        if name == "optimum" and "optimum" not in last:  # it comes once more, with the ranges of weights
            assert not {"statement", "decision", "walk", "paths", "code", "values"} & last.keys()
        last[name] = html
    shown = memory["shown"]
    assert set(last) - {"address", "idle"} <= set(re.findall(r'id="([\w-]+)"', app.whole(SMALL)))
    assert "more follow" not in last["paths"]
    assert last["values"].count("interval") == 1 + len(page.formulations(shown))
    assert json.loads(last["address"])["samples"] == ["20", str(State().samples)]
    assert json.loads(last["address"])["formulation"][0] == page.formulations(shown)[0]
    bad, memory["shown"] = dict(app.panels(replace(SMALL, kernels="rbf:"), memory, lambda: False)), shown
    assert "is not understood" in text_of(bad["complaint-kernels"])
    assert bad["optimum"] == last["optimum"]


def test_the_page_has_a_control_for_every_choice_at_its_state_and_what_it_is_given_is_no_markup():
    pytest.importorskip("math_core", reason="the extra 'explore' is not installed")
    given = State(data="</script>.csv", loss="logistic", p="2", C=states.COSTS[3], samples=40, groups="0 | 1")
    html = app.whole(given, own="own.csv")
    lists = dict(re.findall(r'<select id="(\w+)" name="\1">(.*?)</select>', html))
    offered = {name: tuple(text_of(words.replace("</option>", "\n")).splitlines()) for name, words in lists.items()}
    data = (*states.GENERATED, *states.BUNDLED, "own.csv", given.data)
    assert {name: offered[name] for name in ("data", *states.CHOICES)} == {"data": data, **states.CHOICES}
    chosen = {name: unescape(re.search(" selected>(.*?)<", lists[name])[1]) for name in ("data", *states.CHOICES)}
    assert chosen == {name: getattr(given, name) for name in chosen}
    sliders = dict(re.findall(r'<input type="range" id="(\w+)" .*?value="(.*?)"', html))
    assert sliders.keys() == {"C", *states.RANGES}
    assert (sliders["C"], sliders["samples"]) == ("3", "40")
    assert 'name="groups" value="0 | 1"' in html
    assert "</script>.csv" not in html
