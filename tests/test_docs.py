"""What README and docs say: their code runs, their versions are those of the project, their names exist."""

from __future__ import annotations

import importlib.util
import inspect
import json
import linecache
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mklref
from mklref._latex import PRIMERS
from mklref.formulations import FORMULATIONS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if not {"_build", "_generated"} & set(path.parts))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_readme_code_runs_and_ends_in_a_printed_gap(capsys):
    names: dict[str, object] = {}
    blocks = code_blocks(README, "python")
    assert len(blocks) == 3
    for block in blocks[:2]:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    gap = re.search(r"relative gap (\S+)", printed)
    assert gap is not None
    assert float(gap.group(1)) <= 1e-6
    assert "PASSED" in printed
    lower, upper, value = map(float, re.search(r"(\S+) <= P\* <= (\S+); Kloft \(P\) has (\S+)", printed).groups())
    assert upper - lower <= 1e-6 * upper + 1e-6  # six decimals are printed
    assert value == pytest.approx(upper, rel=1e-6)
    exec(compile(blocks[2], "README.md", "exec"), names)
    assert "relative gap" in capsys.readouterr().out


def test_readme_example_is_ten_lines_and_the_primer_that_of_the_library():
    code, example = (block.splitlines() for block in code_blocks(README, "python")[:2])
    assert len([line for line in example if line and not line.startswith("import")]) <= 11
    library = inspect.getsource(mklref.primer.kloft_P).splitlines()
    body = code[next(n for n, line in enumerate(code) if line.endswith('"""')) + 1 :]
    assert body == library[-len(body) :]
    assert library[-len(body) - 1].strip() == '"""'


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # a solver's opinion, which depends on the processor
@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_the_docs_runs(page):
    for k, block in enumerate(code_blocks(page.read_text(encoding="utf-8"), "python")):
        name = f"{page.name}, block {k}"
        linecache.cache[name] = len(block), None, block.splitlines(keepends=True), name  # Hypothesis asks for it
        exec(compile(block, name, "exec"), {})


def test_versions_are_those_of_the_project():
    assert PROJECT["version"] == mklref.__version__
    assert f"version = {{{mklref.__version__}}}" in README
    minimum = PROJECT["requires-python"].removeprefix(">=")
    for page in (README, (ROOT / "docs" / "install.md").read_text(encoding="utf-8")):
        assert f"Python {minimum} or newer" in page
    standard = re.search(r"CMAKE_CXX_STANDARD (\d+)", (ROOT / "mklref/machines/_core/CMakeLists.txt").read_text())
    assert f"C++{standard.group(1)}" in README


def test_table_of_formulations_is_complete():
    table = README.partition("## Formulations")[2].partition("##")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert sorted(named) == sorted(FORMULATIONS)


def test_two_commands_do_all_the_setup():
    """`.ci/run` takes these two from the README and runs them as they are."""
    commands = dict(re.findall(r"<!-- command: (\w+) -->\n```sh\n(.+)\n```", README))
    assert commands["main"].endswith(".venv/bin/pip install . && .venv/bin/mklref crosscheck")
    assert commands["test"].endswith("/pip install '.[test]' && .venv-test/bin/pytest -n 2")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "readme_command main" in script
    assert "readme_command test" in script


def test_options_in_readme_and_docs_exist():
    from mklref.cli.options import parser

    commands = next(action for action in parser()._actions if action.dest == "command").choices
    text = "\n".join([README, *(page.read_text(encoding="utf-8") for page in PAGES)])
    for command, options in re.findall(
        r"mklref (fit|predict|path|crosscheck|solve|certify|vectors|explore|list)((?: [^\n`&]+)?)", text
    ):
        known = commands[command]._option_string_actions
        for option in re.findall(r"--[a-z-]+", options):
            assert option in known, f"mklref {command} {option}"


def test_extras_in_readme_and_docs_exist():
    text = "\n".join([README, *(page.read_text(encoding="utf-8") for page in PAGES)])
    for extras in re.findall(r"'(?:\.|mklref)\[([a-z,]+)\]'", text):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_relative_links_lead_somewhere():
    """Pictures are drawn when the docs are built, which refuses one that nobody draws."""
    for page in [*ROOT.glob("*.md"), *PAGES]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            drawn = "_static/" in target and page.name != "README.md"
            assert drawn or (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.fixture
def generate(monkeypatch):
    """The module of the docs that turns docstrings into pages."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import generate

    return generate


def test_pages_of_the_interface_name_what_there_is():
    """A page that names a module which was moved would be empty, and the documentation would not build."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES if page.parent.name == "api")
    named = re.findall(r"\.\. auto\w+:: (\S+)", pages)
    assert len(named) > 40
    for name in named:
        pkgutil.resolve_name(name)


def test_docstrings_survive_as_text(generate):
    lines = """V*(s, y) on |s| <= 1, for x_ and `a*b`.

    R*(g) = 0
      more

R(rho)     = 1/2 S^2
theta      = rho/S

Parameters
----------
p : float
    In [1, inf*].

Notes
-----
Prose*.

    a = b""".splitlines()
    expected = r"""V\*(s, y) on \|s\| <= 1, for x\_ and `a*b`.

::

    R*(g) = 0
      more

::

    R(rho)     = 1/2 S^2
    theta      = rho/S

Parameters
----------
p : float
    In [1, inf\*].

Notes
-----
Prose\*.

::

    a = b
""".splitlines()
    assert generate.prose(lines)[:-1] == expected


@pytest.fixture
def provenance(monkeypatch):
    """The module of the docs that says where figures come from."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import provenance

    return provenance


def test_figures_are_found_outside_of_code(provenance):
    text = "# A\n| x | 1.0 | 2 s |\n## B\nIt takes 3 ms.\n```\n4 s\n```\n## C\nC = 3.\n![p](../_static/touch-gap.svg)\n"
    assert provenance.measured(text) == {"A", "B"}
    assert provenance.pictures(text) == {"touch-gap.svg"}


def test_every_figure_of_the_docs_has_a_command_and_a_commit_or_says_what_lacks(provenance):
    figures, stated = provenance.LEDGER["figures"], set(provenance.LEDGER["stated"])
    pages = {str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8") for path in PAGES}
    pages["README.md"] = README
    found = {
        f"{name}: {section}"
        for name, text in pages.items()
        if name != "reproduction.md"  # where each figure has a line in a file
        for section in provenance.measured(text)
    }
    listed = {f"{entry['page']}: {section}" for entry in figures for section in entry["sections"]}
    assert found - listed == stated
    assert not listed & stated
    for entry in figures:
        headings = re.findall(r"^#+ (.*)$", pages[entry["page"]], flags=re.MULTILINE)
        assert set(entry["sections"]) <= {*headings, "all"}, entry["page"]
        modules = re.findall(r"python -m (validation\S*)", entry["command"])
        assert all(importlib.util.find_spec(module) for module in modules), modules
        assert provenance.made(entry) or entry.get("open"), f"{entry['page']}: neither a commit nor what lacks"
        assert all(map(provenance.clean, entry.get("commits", ())))
    drawn = provenance.LEDGER["drawn"]
    assert all(picture.startswith(tuple(drawn)) for text in pages.values() for picture in provenance.pictures(text))
    scripts = {f"python {path.relative_to(ROOT)}" for path in (ROOT / "docs" / "figures").glob("*.py")}
    assert scripts <= {" ".join(command.split()[:2]) for command in drawn.values()}  # one may draw several pictures
    assert len(provenance.table()) == 4 + len(figures)


@pytest.mark.parametrize(
    ("results", "commits"),
    [
        ([{"commit": "a"}, {"facts": {"commit": "b"}}, {"x": 1}], ["a", "b", None]),
        ({"facts": {"commit": "a"}, "rows": [{}, {"commit": "b+"}]}, ["a", "b+"]),
        ({"part": {"commit": "c", "rows": [{"rows": 7.0}]}, "other": {"rows": [{}]}}, ["c", None]),
    ],
)
def test_commits_are_those_of_rows_or_of_what_they_are_in(provenance, results, commits):
    assert list(provenance.commits(results)) == commits
    assert [provenance.clean(commit) for commit in ("0123abcd", "0123abcd+", None)] == [True, False, False]


def test_commits_that_figures_name_are_in_the_history(provenance):
    known = provenance.history()
    if isinstance(known, str):
        pytest.skip(known)
    assert provenance.unknown(known) == []


@pytest.fixture
def history(tmp_path):
    """A repository with the check, a ledger and a file of results that name its first commit; and git in it."""
    root = tmp_path / "repository"

    def git(*arguments: str, where: Path = root) -> str:
        command = ["git", "-C", str(where), "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    (root / "docs").mkdir(parents=True)
    (root / "validation" / "results" / "deep").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "provenance.py", root / "docs")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("rev-parse", "HEAD")
    (root / "docs" / "measured.toml").write_text(f'[[figures]]\ncommits = ["{first[:8]}"]\n')
    rows = [{"facts": {"commit": commit}} for commit in (first[:8], f"{first[:8]}+", None)]
    (root / "validation" / "results" / "deep" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    git("add", ".")
    git("commit", "-qm", "second")
    return root, git


def checked(root: Path) -> tuple[int, str]:
    command = [sys.executable, "docs/provenance.py", "--check"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_a_commit_that_the_history_lacks_is_named_with_its_file(history):
    root, git = history
    assert checked(root) == (0, "every commit that is named is in the history\n")
    git("checkout", "-q", "-b", "aside")
    git("commit", "-qm", "of another branch", "--allow-empty")
    aside = git("rev-parse", "--short=8", "HEAD")
    git("checkout", "-q", "-")
    (root / "docs" / "measured.toml").write_text('[[figures]]\ncommits = ["10f55075"]\n')
    (root / "validation" / "results" / "b.json").write_text(json.dumps({"commit": aside, "rows": [{}]}))
    code, said = checked(root)
    assert code == 1
    assert [line.partition(" is no commit")[0] for line in said.splitlines()] == [
        "docs/measured.toml: 10f55075",
        f"validation/results/b.json: {aside}",
    ]


def test_without_the_whole_history_no_commit_is_looked_up(history, tmp_path, monkeypatch):
    root, git = history
    git("clone", "-q", "--depth", "1", root.as_uri(), str(tmp_path / "shallow"), where=tmp_path)
    assert checked(tmp_path / "shallow")[1].startswith("not checked: the clone is shallow")
    shutil.copytree(root, root / "copy", ignore=shutil.ignore_patterns(".git"))
    assert checked(root / "copy") == (0, "not checked: these files are a copy inside of another repository\n")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    shutil.rmtree(root / ".git")
    assert checked(root) == (0, "not checked: these files are no git checkout\n")


def test_tables_of_problems_and_peers_are_made_of_the_stored_results(generate, tmp_path, monkeypatch):
    generate.problem_tables(tmp_path)
    generate.peers_table(tmp_path)
    problems, proven, peers = ((tmp_path / f"{name}.md").read_text("utf-8") for name in ("problems", "proven", "peers"))
    assert "| wine-178-hinge-p-1 | 178 | 18 | hinge | `Lp(1)` | 10 | 11.2802994491(646…705) |" in problems
    assert problems.count("\n") == 2 + 30
    assert "| `block_norm` |" in proven
    assert "| native |" in peers
    row = {"problem": "digits", "n": 9, "M": 2, "p": 1.0, "solver": "native", "points": [{"gap": 1e-6, "seconds": 2.0}]}
    facts = [{"date": f"2026-01-0{day} 12:00", "machine": machine} for day, machine in ((2, "B"), (1, "A"))]
    (tmp_path / "rows.json").write_text(
        json.dumps({"rows": [{**row, "facts": f, "n": k} for k, f in enumerate(facts)]})
    )
    monkeypatch.setattr("validation.peers.gaps.STORED", tmp_path / "rows.json")
    generate.peers_table(tmp_path)
    assert "Measured 2026-01-01 to 2026-01-02 on A and B: seconds" in (tmp_path / "peers.md").read_text("utf-8")
    assert generate.reached([{"gap": 1e-3, "seconds": 2.0}, {"gap": 1e-2, "seconds": 1.0}]) == "(1e-03, 2)"


def test_tables_of_the_native_solver_are_made_of_the_stored_results(generate, tmp_path):
    generate.native_tables(tmp_path)
    stored = json.loads((generate.RESULTS / "native.json").read_text("utf-8"))
    passes, profile, many, small = (
        (tmp_path / f"native-{name}.md").read_text("utf-8") for name in ("passes", "profile", "many", "small")
    )
    row = stored["digits"]["rows"][1]
    assert f"| digits | hinge | 4/3 | {row['seconds']:.3f} |" in passes
    assert f"| {row['passes']:.1f} | 15 | 6 | – |" in passes
    assert f"Measured {stored['digits']['date'][:10]}" in passes
    assert f"| {100.0 * stored['profile']['rows'][0]['shares']['images']:.0f} |" in profile
    kept = sum(row["kept"] for row in stored["many"]["rows"] if row["n"] == 500)
    assert f"{kept} of the 12 with 500 samples" in many
    assert "| 50 | 2 | " in small
    assert "| – |" in small  # qcqp is for p = 1


def test_pages_of_formulations_hold_statement_and_source(generate, tmp_path):
    pages = tmp_path / "formulations"
    pages.mkdir()
    generate.formulation_pages(pages)
    assert sorted(page.stem for page in pages.iterdir()) == sorted(FORMULATIONS)
    page = (pages / "qcqp.rst").read_text("utf-8")
    assert "Recovery: theta_m is the multiplier" in page
    assert ":doc:`mixed_norm`" in page
    assert "of the same value" not in (pages / "group_lasso.rst").read_text("utf-8")  # it has both, without 1'beta = 0
    parts = [
        ".. math::",
        "\\max_{\\beta",
        "Its primal, of the same value",
        r"\frac12 \Big(\sum_m \lVert v_m\rVert\Big)^2",
        "_static/formulation-qcqp.svg",
        ":pyobject: simplemkl_8",
        ":pyobject: kloft_13",
        "The general form",
        "Recovery",
    ]
    assert sorted(parts, key=page.index) == parts
    source, first = re.search(r"literalinclude:: (\S+)\n.*\n +:lines: (\d+)-", page).groups()
    code = (pages / source).read_text("utf-8").splitlines()[int(first) - 1 :]
    assert code[0] == "from __future__ import annotations"


def test_every_primer_has_a_page(generate):
    """Those of a formulation are on its page, those of mixed-norm synthesis on their own."""
    statements = tomllib.loads(generate.STATEMENTS.read_text(encoding="utf-8"))
    assert sorted(statements) == sorted(PRIMERS) == sorted(FORMULATIONS)
    shown = [name for names in PRIMERS.values() for name in names]
    shown += re.findall(r":pyobject: (\w+)", (ROOT / "docs" / "synthesis.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(mklref.primer.__all__)


def test_what_other_programs_have_in_common_with_the_baselines_is_on_the_page_for_those_who_come_from_them():
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    for name in ("easymkl", "kernel_alignment"):
        assert name in mklref.algorithms.BASELINES
        assert f"`algorithms.{name}(" in page
