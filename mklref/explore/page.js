"use strict";

const form = document.getElementById("controls");
const results = document.getElementById("results");
const token = new URLSearchParams(location.search).get("access_token");
const page = crypto.randomUUID(); // what the server remembers belongs to this page
const shown = new Map(); // the HTML of every panel, so that what stays the same is left alone
let state = read(document.getElementById("state").textContent);
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
  said.set("access_token", token);
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

const special = {
  end() {
    answer.ended = true;
  },
  address(text) {
    if (waiting) return; // the controls have moved on
    const said = read(text);
    for (const name of ["formulation", "walk"]) state.set(name, said.get(name));
    history.replaceState(null, "", `?${query()}`);
  },
  idle(text) {
    const idle = new Set(text.split(" "));
    for (const control of form.elements) control.closest(".control").hidden = idle.has(control.name);
  },
};

/* A panel gets its HTML; what had the focus within it keeps it. */
function show(id, html) {
  if (special[id]) return special[id](html);
  if (shown.get(id) === html) return;
  shown.set(id, html);
  const panel = document.getElementById(id);
  const held = panel.contains(document.activeElement) ? document.activeElement.name : "";
  panel.innerHTML = html;
  if (held) panel.querySelector(`[name="${held}"]`)?.focus();
}

/* The panels of the state, line by line as they come. A move that comes before the interval of the last one waits for
   it; one that comes later ends the answer, and begins another. */
async function ask() {
  if (answer?.early) {
    waiting = true;
    return;
  }
  answer?.end.abort();
  const mine = (answer = { early: true, end: new AbortController() });
  results.setAttribute("aria-busy", "true");
  try {
    const said = query();
    said.set("page", page);
    const reply = await fetch(`panels?${said}`, { signal: mine.end.signal });
    if (!reply.ok) throw new TypeError(await reply.text());
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value: piece, done } = await reader.read();
      if (answer !== mine) return;
      if (done && !mine.ended) throw new TypeError("it broke off, and the terminal says why");
      if (done) break;
      const lines = (text + piece).split("\n");
      text = lines.pop();
      for (const line of lines) {
        const [id, html] = JSON.parse(line);
        show(id, html);
        if (id === "optimum") mine.early = false;
        if (!mine.early && waiting) {
          waiting = false;
          return void ask();
        }
      }
    }
  } catch (wrong) {
    if (wrong.name === "AbortError" || answer !== mine) return;
    waiting = false;
    const complaint = Object.assign(document.createElement("p"), { className: "complaint" });
    complaint.textContent = `There is no whole answer: ${wrong.message}. Does mklref explore still run?`;
    complaint.setAttribute("role", "alert");
    shown.delete("again");
    document.getElementById("again").replaceChildren(complaint);
  }
  if (answer === mine) {
    mine.early = false;
    results.setAttribute("aria-busy", "false");
  }
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
    await navigator.clipboard.writeText(document.getElementById("code").textContent);
    document.getElementById("copied").textContent = "copied";
    setTimeout(() => (document.getElementById("copied").textContent = ""), 2000);
  }
});

for (const control of form.elements) say(control);
ask();
