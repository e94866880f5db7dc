"""The page of the explorer: a marimo notebook that is served in run mode; every cell follows the controls it reads."""

import marimo

app = marimo.App(width="full", app_title="mklref explorer")


@app.cell
def _():
    from dataclasses import replace

    import marimo as mo

    from mklref.explore import page, walk, work
    from mklref.explore.state import BUNDLED, COSTS, GENERATED, NORMS, RANGES, REGULARIZERS, State
    from mklref.losses import LOSSES

    return BUNDLED, COSTS, GENERATED, LOSSES, NORMS, RANGES, REGULARIZERS, State, mo, page, replace, walk, work


@app.cell
def _(State, mo, walk, work):
    walk.reached.cache_clear()
    work.forget()  # whoever loads the page again may have changed the file
    start = State.from_query(mo.query_params().to_dict())
    memory: dict = {}  # the last good picture, and the last problem that was solved to the end
    walked, walk_to = mo.state(start.walk)
    finished, has_finished = mo.state(0)
    return finished, has_finished, memory, start, walk_to, walked


@app.cell
def _(BUNDLED, COSTS, GENERATED, LOSSES, NORMS, RANGES, REGULARIZERS, State, mo, page, start):
    known = [*GENERATED, *BUNDLED, *([] if start.data in (*GENERATED, *BUNDLED) else [start.data])]
    data = mo.ui.dropdown(known, value=start.data, label="data")
    samples = mo.ui.slider(*RANGES["samples"], 10, value=start.samples, label="samples", show_value=True)
    share = mo.ui.slider(*RANGES["share"], 0.1, value=start.share, label="relevant kernels", show_value=True)
    noise = mo.ui.slider(*RANGES["noise"], 0.05, value=start.noise, label="noise", show_value=True)
    positive = mo.ui.text(value=start.positive, label="positive class")
    kernels = mo.ui.text(value=start.kernels, label="kernels", full_width=True)
    loss = mo.ui.dropdown(list(LOSSES), value=page.one_of(start.loss, LOSSES, State.loss), label="loss")
    regularizer = mo.ui.dropdown(
        list(REGULARIZERS), value=page.one_of(start.regularizer, REGULARIZERS, State.regularizer), label="regulariser"
    )
    p = mo.ui.dropdown(list(NORMS), value=page.one_of(start.p, NORMS, State.p), label="p (or q of a block norm)")
    lam = mo.ui.slider(*RANGES["lam"], 0.05, value=start.lam, label="λ of the elastic net", show_value=True)
    C = mo.ui.slider(steps=COSTS, value=start.C, label="C", show_value=True)
    groups = mo.ui.text(value=start.groups, label="groups, with bars between", placeholder="two halves")
    return C, data, groups, kernels, lam, loss, noise, p, positive, regularizer, samples, share


@app.cell
def _(C, State, data, groups, kernels, lam, loss, noise, p, positive, regularizer, samples, share, start, walked):
    chosen = State(
        data=data.value,
        samples=samples.value,
        share=share.value,
        noise=noise.value,
        positive=positive.value,
        kernels=kernels.value,
        loss=loss.value,
        regularizer=regularizer.value,
        p=p.value,
        lam=lam.value,
        C=C.value,
        groups=groups.value,
        formulation=start.formulation,
        walk=walked(),
    )
    return (chosen,)


@app.cell
def _(chosen, finished, memory, work):
    finished()
    shown, complaint = work.solved(chosen, memory)
    return complaint, shown


@app.cell
def _(has_finished, memory, mo, shown, work):
    def to_the_end(has_finished=has_finished, memory=memory, mo=mo, shown=shown, work=work):
        if work.finish(shown, memory, lambda: mo.current_thread().should_exit):
            has_finished(lambda count: count + 1)

    if not shown.finished:
        mo.Thread(target=to_the_end).start()
    return


@app.cell
def _(
    C,
    chosen,
    complaint,
    data,
    groups,
    kernels,
    lam,
    loss,
    mo,
    noise,
    p,
    page,
    positive,
    regularizer,
    samples,
    share,
    shown,
):
    places = {
        "data": {"data": data, "samples": samples, "noise": noise, "share": share, "positive": positive},
        "kernels": {"kernels": kernels},
        "problem": {"loss": loss, "regularizer": regularizer, "p": p, "lam": lam, "groups": groups, "C": C},
    }
    hints = {"data": page.read(chosen), "kernels": page.HINT, "problem": page.groups(shown)}
    idle, rows = page.idle(data.value, regularizer.value), []
    for place, controls in places.items():
        rows += [control for name, control in controls.items() if name not in idle]
        if place in complaint:
            rows.append(mo.Html(page.complained(complaint[place])))
        if hints[place]:
            rows.append(mo.Html(hints[place]))
    mo.sidebar(rows, width="300px")
    return


@app.cell
def _(complaint, mo, page, shown):
    mo.vstack(
        [
            mo.Html(page.STYLE),
            mo.md("# Explore a formulation"),
            mo.Html(page.again(complaint, shown)),
            mo.Html(f'<div class="{"faded" if complaint else ""}">{page.optimum(shown)}</div>'),
        ]
    )
    return


@app.cell
def _(mo, page, shown, start):
    names = page.formulations(shown)
    formulation = mo.ui.dropdown(
        names, value=start.formulation if start.formulation in names else names[0], label="formulation"
    )
    return (formulation,)


@app.cell
def _(chosen, formulation, mo, page, replace, steps):
    page.remember(mo.query_params(), replace(chosen, walk=steps.taken), formulation.value)
    return


@app.cell
def _(formulation, mo, page, shown):
    equations = mo.md(page.statement(shown, formulation.value))
    printed = mo.md(page.primer(formulation.value, shown.state.loss))
    mo.vstack([mo.md("## What it states"), formulation, mo.Html(page.beside(equations.text, printed.text))])
    return


@app.cell
def _(mo, page, shown):
    mo.vstack([mo.md("## The decision function"), mo.Html(page.decision(shown))])
    return


@app.cell
def _(mo, shown, walk, walk_to):
    steps = walk.walk(shown)

    def to(way):
        return lambda _: walk_to(way)

    walks = mo.ui.array([mo.ui.button(label=words, on_click=to(way)) for words, way in steps.leaving])
    back = mo.ui.button(label="back", on_click=to(steps.before), disabled=not steps.taken)
    mo.vstack(
        [
            mo.md("## Walk along equivalences"),
            mo.Html(steps.picture),
            mo.hstack([back, *walks], wrap=True, justify="start"),
            mo.Html(walk.NOTE + steps.table),
        ]
    )
    return (steps,)


@app.cell
def _(mo, page, shown, work):
    def further(mo=mo, page=page, shown=shown, work=work):
        for _ in work.further(shown, lambda: mo.current_thread().should_exit):
            mo.output.replace(mo.vstack([mo.md("## Paths over C and p"), mo.Html(page.paths(shown))]))

    if not work.extend(shown, deadline=shown.begun + work.AT_ONCE) and shown.finished:
        mo.Thread(target=further).start()
    mo.vstack([mo.md("## Paths over C and p"), mo.Html(page.paths(shown))])
    return


@app.cell
def _(mo, page, shown, work):
    def ask(mo=mo, page=page, shown=shown, work=work):  # bound here: the cell's names are gone when the page is closed
        for html, done in page.values(shown, lambda: mo.current_thread().should_exit):
            mo.output.replace(mo.vstack([mo.md("## The value of each formulation"), mo.Html(html)]))
            if done:
                work.prepare()

    if shown.finished:  # one thing after the other: else everything waits for everything
        mo.Thread(target=ask).start()
    mo.vstack([mo.md("## The value of each formulation"), mo.md("conic solvers are at work …")])
    return


@app.cell
def _(formulation, mo, page, shown):
    mo.vstack([mo.md("## The code of what is shown"), mo.md(page.code(shown, formulation.value))])
    return


if __name__ == "__main__":
    app.run()
