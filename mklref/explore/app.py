"""The page of the explorer: a marimo notebook that is served in run mode; every cell follows the controls it reads."""

import marimo

app = marimo.App(width="full", app_title="mklref explorer")


@app.cell
def _():
    import marimo as mo

    from mklref.explore import page
    from mklref.explore.state import BUNDLED, COSTS, GENERATED, NORMS, REGULARIZERS, State
    from mklref.losses import LOSSES

    return BUNDLED, COSTS, GENERATED, LOSSES, NORMS, REGULARIZERS, State, mo, page


@app.cell
def _(State, mo):
    start = State.from_query(mo.query_params().to_dict())
    memory: dict = {}  # the last good picture
    walked, walk_to = mo.state(start.walk)
    return memory, start, walk_to, walked


@app.cell
def _(BUNDLED, COSTS, GENERATED, LOSSES, NORMS, REGULARIZERS, mo, page, start):
    known = [*GENERATED, *BUNDLED, *([] if start.data in (*GENERATED, *BUNDLED) else [start.data])]
    data = mo.ui.dropdown(known, value=start.data, label="data")
    samples = mo.ui.slider(20, 200, 10, value=min(200, max(20, start.samples)), label="samples", show_value=True)
    share = mo.ui.slider(0.1, 1.0, 0.1, value=start.share, label="relevant kernels (toy)", show_value=True)
    noise = mo.ui.slider(0.0, 1.0, 0.05, value=start.noise, label="noise (moons, rings)", show_value=True)
    positive = mo.ui.text(value=start.positive, label="class +1 (of several)")
    kernels = mo.ui.text(value=start.kernels, label="kernels", full_width=True)
    loss = mo.ui.dropdown(list(LOSSES), value=page.one_of(start.loss, LOSSES), label="loss")
    regularizer = mo.ui.dropdown(
        list(REGULARIZERS), value=page.one_of(start.regularizer, REGULARIZERS), label="regulariser"
    )
    p = mo.ui.dropdown(list(NORMS), value=page.one_of(start.p, NORMS), label="p (or q of a block norm)")
    lam = mo.ui.slider(0.05, 0.95, 0.05, value=start.lam, label="λ of the elastic net", show_value=True)
    C = mo.ui.slider(steps=COSTS, value=min(COSTS, key=lambda c: abs(c - start.C)), label="C", show_value=True)
    groups = mo.ui.text(value=start.groups, label="groups, such as 0 1 | 2 3")
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
def _(chosen, memory, page):
    shown, complaint = page.solved(chosen, memory)
    return complaint, shown


@app.cell
def _(C, complaint, data, groups, kernels, lam, loss, mo, noise, p, positive, regularizer, samples, share):
    beside = {name: mo.callout(mo.plain_text(text), kind="danger") for name, text in complaint.items()}
    mo.vstack(
        [
            mo.md("# Explore a formulation"),
            mo.hstack([data, samples, noise, share, positive], wrap=True, justify="start"),
            *[beside[name] for name in ("data",) if name in beside],
            kernels,
            *[beside[name] for name in ("kernels",) if name in beside],
            mo.hstack([loss, regularizer, p, lam, C, groups], wrap=True, justify="start"),
            *[beside[name] for name in ("problem",) if name in beside],
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
def _(chosen, formulation, mo, page):
    page.remember(mo.query_params(), chosen, formulation.value)
    return


@app.cell
def _(formulation, mo, page, shown):
    mo.vstack(
        [
            formulation,
            mo.hstack(
                [mo.md(page.statement(shown, formulation.value)), mo.md(page.primer(formulation.value))],
                widths=[1, 1],
                wrap=True,
                align="start",
            ),
        ]
    )
    return


@app.cell
def _(mo, page, shown):
    mo.vstack([mo.md("## The certified optimum"), mo.Html(page.optimum(shown))])
    return


@app.cell
def _(mo, page, shown):
    mo.vstack([mo.md("## The decision function"), mo.Html(page.decision(shown))])
    return


@app.cell
def _(mo, page, shown):
    mo.vstack([mo.md("## Paths over C and p"), mo.Html(page.paths(shown))])
    return


@app.cell
def _(mo, page, shown):
    def ask():
        for html, done in page.conic(shown, lambda: mo.current_thread().should_exit):
            mo.output.replace(mo.vstack([mo.md("## What each formulation states"), mo.Html(html)]))
            if done:
                return

    mo.Thread(target=ask).start()
    mo.vstack([mo.md("## What each formulation states"), mo.md("conic solvers are at work …")])
    return


@app.cell
def _(mo, page, shown, walk_to):
    steps = page.walk(shown)
    walks = mo.ui.array(
        [
            mo.ui.button(
                label=name, tooltip=f"to {right}", on_click=lambda _, name=name: walk_to(shown.state.after(name))
            )
            for name, right in steps.leaving
        ]
    )
    back = mo.ui.button(label="back", on_click=lambda _: walk_to(shown.state.before()), disabled=not shown.state.walk)
    mo.vstack(
        [
            mo.md("## Walk along equivalences"),
            mo.hstack([mo.Html(steps.picture), mo.vstack([back, *walks])], wrap=True, align="start", widths=[2, 1]),
            mo.Html(steps.table),
        ]
    )
    return


@app.cell
def _(formulation, mo, page, shown):
    mo.vstack(
        [
            mo.md("## The code of what is shown"),
            mo.ui.code_editor(page.code(shown, formulation.value), disabled=True, show_copy_button=True),
        ]
    )
    return


if __name__ == "__main__":
    app.run()
