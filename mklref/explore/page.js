"use strict";

const PATIENCE = 300; // milliseconds after which it is said that something is computed
const LONG = 1000; // and after which the next move waits no longer for the answer to the last one

const by = (id) => document.getElementById(id);
const form = by("controls");
const token = new URLSearchParams(location.search).get("access_token");
const page = crypto.randomUUID(); // what the server remembers belongs to this page
const shown = new Map(); // the HTML of every panel, so that what stays the same is left alone
let state = read(by("state").textContent);
let answer = null; // what is being read
let waiting = false; // whether a control moved while its last move had no answer yet

/* Each part of the state with what it is in the beginning. */
function read(text) {
  return new Map(Object.entries(JSON.parse(text)));
}

function set(name, value) {
  state.set(name, [value, state.get(name)[1]]);
}

/* What differs from the beginning, as in every address. */
function query() {
  const said = new URLSearchParams();
  for (const [name, [value, start]] of state) if (value !== start) said.set(name, value);
  return said;
}

function asked(also) {
  const said = query();
  for (const [name, value] of Object.entries({ ...also, access_token: token })) said.set(name, value);
  return said;
}

function value(control) {
  return control.dataset.values ? String(JSON.parse(control.dataset.values)[control.value]) : control.value;
}

function say(control) {
  const output = form.querySelector(`output[for="${control.id}"]`);
  if (!output) return;
  output.textContent = value(control);
  control.setAttribute("aria-valuetext", value(control));
}

/* What is no panel, or more than one. */
const special = {
  address(text) {
    if (waiting) return; // the controls have moved on
    const said = read(text);
    for (const name of ["formulation", "walk"]) state.set(name, said.get(name));
    history.replaceState(null, "", `?${asked()}`);
  },
  idle(text) {
    const idle = new Set(text.split(" "));
    for (const control of form.querySelectorAll("input, select")) control.closest(".control").hidden = idle.has(control.name);
  },
  optimum(html) {
    fill("optimum", html);
    answer.early = false;
    behind(false);
    by("proved").textContent = html.match(/aria-label="(The optimum [^"]*)"/)?.[1] ?? "";
  },
  code(html) {
    fill("code", html);
    by("copy").disabled = false;
  },
  fault(text) {
    throw new Error(`${text}. The terminal of mklref explore says where.`);
  },
  end() {
    answer.ended = true;
  },
};
for (const place of ["data", "kernels", "problem"])
  special[`complaint-${place}`] = (html) => {
    fill(`complaint-${place}`, html);
    const control = by(`complaint-${place}`).closest(".control").querySelector("input, select");
    control.setAttribute("aria-invalid", html !== "");
    control.setAttribute("aria-describedby", `complaint-${place} hint-${place}`);
  };

/* A panel gets its HTML. What had the focus within it keeps it; a button that is gone leaves it to the first one that
   leads on. */
function fill(id, html) {
  if (shown.get(id) === html) return;
  shown.set(id, html);
  const panel = by(id);
  const held = panel.contains(document.activeElement) ? document.activeElement : null;
  panel.innerHTML = html;
  if (!held?.name) return;
  const named = [...panel.querySelectorAll(`[name="${held.name}"]:not(:disabled)`)];
  const same = named.find((element) => element.type !== "button" || element.value === held.value);
  (same ?? named.find((element) => !("back" in element.dataset)) ?? named[0])?.focus();
}

/* Whether what is shown belongs to other settings than the controls. */
function behind(is) {
  by("results").classList.toggle("behind", is);
  by("computing").hidden = !is;
}

function complain(text) {
  shown.delete("again");
  const complaint = Object.assign(document.createElement("p"), { className: "complaint", textContent: text });
  complaint.setAttribute("role", "alert");
  by("again").replaceChildren(complaint);
}

/* The panels of the state, line by line as they come. A move that comes before the interval of the last one waits for
   it, unless that takes long; one that comes later ends the answer, and begins another. */
async function ask() {
  by("copy").disabled = true;
  if (answer?.early && performance.now() < answer.begun + LONG) {
    waiting = true;
    return;
  }
  answer?.end.abort();
  const mine = (answer = { early: true, begun: performance.now(), end: new AbortController() });
  waiting = false;
  by("results").setAttribute("aria-busy", "true");
  setTimeout(() => answer === mine && mine.early && behind(true), PATIENCE);
  setTimeout(() => answer === mine && mine.early && waiting && ask(), LONG);
  try {
    const reply = await fetch(`panels?${asked({ page })}`, { signal: mine.end.signal });
    if (!reply.ok) throw new Error(await reply.text());
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value: piece, done } = await reader.read();
      if (answer !== mine) return;
      if (done && !mine.ended) throw new TypeError("the answer broke off");
      if (done) break;
      const lines = (text + piece).split("\n");
      text = lines.pop();
      for (const line of lines) {
        const [id, html] = JSON.parse(line);
        (special[id] ?? ((html) => fill(id, html)))(html);
        if (!mine.early && waiting) return void ask();
      }
    }
  } catch (wrong) {
    if (wrong.name === "AbortError" || answer !== mine) return;
    const ended =
      `There is no answer (${wrong.message}): mklref explore has ended. Start it again, and open the address that it ` +
      `says; with "&${query()}" behind it the page is as it is here.`;
    complain(wrong instanceof TypeError ? ended : wrong.message);
    by("computing").hidden = true;
  }
  mine.early = false;
  by("results").setAttribute("aria-busy", "false");
  if (waiting) ask();
}

/* Sliders and lists are followed as they move, boxes when they are left or Enter is pressed. */
for (const kind of ["input", "change"])
  document.addEventListener(kind, ({ target }) => {
    if (!state.has(target.name) || (target.type === "text") !== (kind === "change")) return;
    if (target.form === form) say(target);
    if (state.get(target.name)[0] === value(target)) return;
    set(target.name, value(target));
    ask();
  });
form.addEventListener("submit", (event) => event.preventDefault());

document.addEventListener("click", async ({ target }) => {
  if (target.name === "walk") {
    set("walk", target.value);
    ask();
  }
  if (target.id === "copy") {
    const copying = navigator.clipboard.writeText(by("code").textContent);
    by("copied").textContent = await copying.then(() => "copied", (wrong) => `not copied: ${wrong.message}`);
    setTimeout(() => (by("copied").textContent = ""), 3000);
  }
});

for (const control of form.querySelectorAll("input, select")) say(control);
ask();
