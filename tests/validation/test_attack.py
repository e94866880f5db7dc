"""The attack: its frame finds parts, seeds them and reports; each part finds nothing in a handful of cases."""

from __future__ import annotations

import numpy as np
import pytest

from validation.attack import Finding, __main__, each, generator, parts

CASES = 3


@pytest.mark.parametrize("part", sorted(parts()))
def test_a_handful_of_cases_finds_nothing(part):
    found = parts()[part](CASES, generator(1, part))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("part", "seed", "case"),
    [
        (
            "equivalences",
            23,
            945,
        ),  # an optimum of 1e-15, which on the left the unit of the gap exceeds, on the right not
        ("evidence", 23, 256),  # phi rises in float64 and falls in rational arithmetic
        ("solves", 5, 40),  # a tube on whose edge all samples are
        ("solves", 17, 301),  # a float32 kernel with negative eigenvalues, whose J is not convex
        ("solves", 29, 903),  # two samples on the edge of a tube, an optimum of 1e-23
    ],
)
def test_cases_that_broke_a_promise_once_keep_it(part, seed, case):
    rng = generator(seed, part)
    rng.spawn(case)
    found = parts()[part](1, rng)
    assert not found, "\n".join(map(str, found))


def broken(cases, rng):
    return each("broken", lambda own: [f"drew {own.integers(1000)}"], cases, rng)


def healthy(cases, rng):
    return each("healthy", lambda own: [], cases, rng)


def test_every_case_has_a_generator_of_its_own_and_the_seed_repeats_it():
    first, again, other = (broken(4, generator(seed, "broken")) for seed in (5, 5, 6))
    assert first == again != other
    assert len({finding.words for finding in first}) == 4
    assert broken(9, generator(5, "broken"))[:4] == first
    assert broken(4, generator(5, "another"))[0].words != first[0].words


def test_an_error_that_a_case_lets_through_is_a_finding():
    def case(own: np.random.Generator) -> list[str]:
        raise ZeroDivisionError("no")

    assert each("part", case, 2, generator(0, "part")) == [
        Finding("part", number, "ZeroDivisionError: no") for number in range(2)
    ]


def test_the_command_prints_findings_and_says_so_by_its_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(__main__, "parts", lambda: {"broken": broken, "healthy": healthy})
    assert __main__.main(["healthy", "--cases", "7"]) == 0
    assert "healthy: 7 cases, 0 findings" in capsys.readouterr().out
    assert __main__.main(["--cases", "2", "--seed", "3"]) == 1
    printed = capsys.readouterr().out
    assert "broken, case 1: drew" in printed
    assert "broken: 2 cases, 2 findings" in printed
    assert __main__.main(["broken", "--cases", "1", "--skip", "1", "--seed", "3"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == printed.splitlines()[1]  # the same case, by itself
    with pytest.raises(SystemExit, match="2"):
        __main__.main(["nothing"])
    assert "there are broken, healthy" in capsys.readouterr().err
