"""The papers' tables and figures, computed again: `python -m validation.reproduce NAME|all [--quick] [--out DIR]`.

An experiment is one module of `experiments/`, listed in `experiments/__init__.py`, with one object and three functions:

    EXPERIMENT = Experiment("kloft-toy", "Kloft Figure 2", PROTOCOL, cells, cell, summary, data=("mnist",))

    def cells(quick: bool) -> list[Cell]        # the full or the quick list: Cell("n50-p1-03", config, seconds)
    def cell(config: dict) -> dict              # one cell: JSON in, JSON out; the seed is in the config
    def summary(results: list[Result]) -> Summary     # of the finished cells, in order: what is compared and drawn

* The name of the experiment is that of its module, with - for _, and begins with that of the paper: a part of
  `expected/<paper>.toml` holds what the paper prints (`table`: rows of `[mean]` or `[mean, deviation]`, a rule for each
  column; `claim`: a sentence of the paper) and, for what differs, why (`cause`: patterns of keys and one paragraph).
  `expected.py` has the format.
* `Summary.tables[table id][row][column]` is the list of our repetitions; rows that the paper has not are shown beside.
  `Summary.claims[claim id]` is an `Evidence(holds, text, decided)`, `Summary.pictures[name]` a `Picture(figure,
  caption)`, `Summary.front[name]` a figure for the first page of the docs.
* A finished cell is one line of DIR/<experiment>.jsonl and is not run again, unless its config changed or it is asked
  for by --cell or --stale. List repetition 0 of everything first: a run that was cut short is then a smaller run of
  the whole.
* `Cell.seconds` is an estimate for one core; keep a cell below some minutes. The quick list uses bundled or generated
  data only, and takes about ten seconds.
* Data: `mklref.datasets.load`; names of sets that need MKLREF_DATA go into `Experiment.data`. Pictures: `pictures.py`.
"""
