// The page: settings and their link, the loop that draws, stories, and the run for real.
const lab = (() => {
  "use strict";
  const ENGINES = { at: patch, fa: cluster, cgro: signal };
  const told = chart.told;
  const one = selector => document.querySelector(selector);
  const made = (tag, text = "", attributes = {}) => {
    const found = document.createElement(tag);
    found.textContent = text;
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  };
  const defaults = model => Object.fromEntries(DATA.controls[model].map(c => [c.key, c.default]));
  const settings = Object.fromEntries(Object.keys(ENGINES).map(model => [model, defaults(model)]));
  const widgets = {};
  let model = "at", story = null, real = null, stopping = null, due = false, settling = null;

  // --- settings

  const control = key => DATA.controls[model].find(c => c.key === key);
  const highest = (c, s) => model === "fa" && c.key === "plus" ? Math.min(c.high, s.k - 1) : model === "fa" && c.key === "groups" ? Math.min(c.high, s.k) : c.high;
  const whole = c => c.scale === "whole" || c.scale === "log-whole";
  const POSITIONS = 1000;

  function position(c, value, s) {
    const high = highest(c, s);
    if (c.scale === "whole") return value;
    const part = c.scale.startsWith("log") ? Math.log(value / c.low) / Math.log(high / c.low) : (value - c.low) / (high - c.low);
    return Math.round(POSITIONS * part);
  }

  function valueAt(c, place, s) {
    const high = highest(c, s);
    if (c.scale === "whole") return place;
    const part = place / POSITIONS;
    const exact = c.scale.startsWith("log") ? c.low * (high / c.low) ** part : c.low + (high - c.low) * part;
    return c.scale === "log-whole" ? Math.round(Number(exact.toPrecision(3))) : Number(exact.toPrecision(3));
  }

  // The nearest value that a control allows, and what follows for others (|J₊| < k, g ≤ k).
  function repaired(s) {
    const found = {};
    for (const c of DATA.controls[model]) {
      if (c.kind === "choice") { found[c.key] = Object.hasOwn(c.options, s[c.key]) ? s[c.key] : c.default; continue; }
      const number = Number(s[c.key]), high = highest(c, found);
      const inside = Math.min(Math.max(Number.isFinite(number) ? number : c.default, c.low), high);
      found[c.key] = whole(c) ? Math.round(inside) : inside;
    }
    return found;
  }

  function change(changes, keep = false) {
    settings[model] = repaired({ ...settings[model], ...changes });
    if (!keep) story = null;
    forget();
    refresh();
  }

  function refresh() {
    if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); }
    clearTimeout(settling);
    settling = setTimeout(settled, 200);
  }

  // --- the link

  function link() {
    const s = settings[model], usual = defaults(model);
    const parts = Object.keys(s).filter(key => s[key] !== usual[key]).map(key => `${key}=${encodeURIComponent(s[key])}`);
    return `#${[model, ...(story ? [`story=${story}`] : []), ...parts].join("&")}`;
  }

  function open(hash) {
    const [name, ...parts] = hash.replace(/^#/, "").split("&");
    if (!Object.hasOwn(ENGINES, name)) return false;
    model = name;
    const given = Object.fromEntries(parts.map(part => part.split("=")).filter(pair => pair.length === 2).map(([key, value]) => [key, decodeURIComponent(value)]));
    const named = DATA.stories.find(s => s.name === given.story && s.model === model);
    story = named ? named.name : null;
    settings[model] = repaired({ ...defaults(model), ...given });
    forget();
    build();
    refresh();
    return true;
  }

  function tell(named) {
    model = named.model;
    story = named.name;
    settings[model] = repaired({ ...defaults(model), ...named.settings });
    forget();
    build();
    refresh();
  }

  // --- controls

  function slider(c) {
    const box = made("div", "", { class: "control" }), id = `c-${c.key}`;
    const name = made("div", "", { class: "name" }), label = made("label", "", { for: id });
    if (c.letter) label.append(made("b", c.letter));
    label.append(c.meaning);
    const number = made("input", "", { class: "value", type: "text", inputmode: "decimal", "aria-label": `${c.letter || c.meaning}, typed`, autocomplete: "off" });
    name.append(label, number);
    const range = made("input", "", { id, type: "range", min: c.scale === "whole" ? c.low : 0, max: c.scale === "whole" ? c.high : POSITIONS, step: 1 });
    const region = made("div", "", { class: "region", "aria-hidden": "true" }), said = made("p", "", { class: "told" });
    range.addEventListener("input", () => change({ [c.key]: valueAt(c, Number(range.value), settings[model]) }));
    number.addEventListener("change", () => change({ [c.key]: number.value.replace("−", "-").replace(",", ".") }));
    box.append(name, range, ...(c.assumptions.length ? [region] : []), said);
    return { box, range, number, region, said };
  }

  function choice(c) {
    const box = made("div", "", { class: "control" }), id = `c-${c.key}`, select = made("select", "", { id });
    const name = made("div", "", { class: "name" }), label = made("label", "", { for: id });
    if (c.letter) label.append(made("b", c.letter));
    label.append(c.meaning);
    name.append(label);
    for (const [key, text] of Object.entries(c.options)) select.append(made("option", text, { value: key }));
    select.addEventListener("change", () => change({ [c.key]: select.value }));
    box.append(name, select);
    return { box, select };
  }

  function build() {
    const home = one("#controls");
    home.replaceChildren();
    for (const key of Object.keys(widgets)) delete widgets[key];
    let apart = null;
    for (const c of DATA.controls[model]) {
      widgets[c.key] = c.kind === "choice" ? choice(c) : slider(c);
      if (c.real && apart === null) {
        apart = made("details", "", { class: "more" });
        apart.append(made("summary", "Only for full descent"));
        home.append(apart);
      }
      (c.real ? apart : home).append(widgets[c.key].box);
    }
    for (const button of document.querySelectorAll(".models button")) button.setAttribute("aria-pressed", String(button.dataset.model === model));
    const paper = DATA.papers[model];
    one("#about").replaceChildren(`${paper.short}, `, made("a", paper.title, { href: paper.address }), `. The curves are ${paper.name}.`);
    one(".picks").replaceChildren(...DATA.stories.filter(s => s.model === model).map(s => {
      const button = made("button", s.title, { type: "button", "data-story": s.name });
      button.addEventListener("click", () => tell(s));
      return button;
    }));
    one("#real-about").textContent = REAL[model];
  }

  // Where along a slider all of its assumptions are met, the other settings as they are.
  function regionOf(c, s, parts = 60) {
    const stops = [];
    for (let i = 0; i <= parts; i++) {
      const place = c.scale === "whole" ? c.low + (highest(c, s) - c.low) * i / parts : POSITIONS * i / parts;
      const value = valueAt(c, c.scale === "whole" ? Math.round(place) : place, s);
      const met = ENGINES[model].conditions({ ...s, [c.key]: value }).filter(a => c.assumptions.includes(a.name)).every(a => a.met);
      stops.push(met ? "var(--holds)" : "var(--line)");
    }
    return stops;
  }

  function gradient(stops) {
    const parts = [], width = 100 / stops.length;
    for (let i = 0; i < stops.length; ) {
      let j = i;
      while (j < stops.length && stops[j] === stops[i]) j++;
      parts.push(`${stops[i]} ${(i * width).toFixed(1)}% ${(j * width).toFixed(1)}%`);
      i = j;
    }
    return `linear-gradient(to right, ${parts.join(", ")})`;
  }

  function show(s) {
    const asked = ENGINES[model].conditions(s);
    for (const c of DATA.controls[model]) {
      const w = widgets[c.key];
      if (c.kind === "choice") { w.select.value = s[c.key]; w.select.disabled = c.key === "clip" && s.training === "standard"; continue; }
      if (c.scale === "whole") w.range.max = highest(c, s);
      if (document.activeElement !== w.range || Number(w.range.value) !== position(c, s[c.key], s)) w.range.value = position(c, s[c.key], s);
      const text = told(s[c.key], c.key === "gap" ? 3 : 4);
      w.range.setAttribute("aria-valuetext", text);
      if (document.activeElement !== w.number) w.number.value = text.includes("10") && /[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]/.test(text) ? s[c.key].toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e") : text;
      if (!c.assumptions.length) continue;
      const look = gradient(regionOf(c, s));
      if (w.region.dataset.look !== look) { w.region.dataset.look = look; w.region.style.background = look; }
      const said = asked.filter(a => c.assumptions.includes(a.name)).map(a => `${a.met ? "✓" : "✗"} ${a.text}`);
      if (w.said.textContent !== said.join("")) w.said.replaceChildren(...said.map(text => made("span", text)));
    }
  }

  // --- drawing

  const figures = [...document.querySelectorAll("figure[data-chart]")].map(figure => ({ figure, head: figure.querySelector("h2"), canvas: figure.querySelector("canvas"), keys: figure.querySelector(".keys"), spec: null, named: "" }));
  const narrow = matchMedia("(max-width: 900px)");
  const heightOf = place => narrow.matches ? (place === 0 ? 190 : 240) : place === 0 ? 380 : 300;

  function sample(look, asDots, hollow) {
    const dash = look.dash[1] ? look.dash.join(" ") : "none";
    return asDots
      ? `<svg viewBox="0 0 32 12" aria-hidden="true"><circle cx="16" cy="6" r="4" fill="${hollow ? "none" : look.colour}" stroke="${look.colour}" stroke-width="2"/></svg>`
      : `<svg viewBox="0 0 32 12" aria-hidden="true"><line x1="0" y1="6" x2="32" y2="6" stroke="${look.colour}" stroke-width="2.6" stroke-dasharray="${dash}"/></svg>`;
  }

  function legend(place, spec) {
    const items = [...spec.series.filter(s => s.name), ...(spec.across || []), ...(spec.upright || [])].filter(item => !("value" in item) || (item.value !== null && isFinite(item.value)));
    const named = items.map(item => item.name).join("|");
    if (named === figures[place].named) return;
    figures[place].named = named;
    figures[place].keys.replaceChildren(...items.map(item => {
      const line = made("li");
      line.innerHTML = sample(item.look, item.dots, item.hollow);
      line.append(item.name);
      return line;
    }));
  }

  function paint(place, spec) {
    const f = figures[place];
    f.spec = spec;
    if (f.head.textContent !== spec.title) f.head.textContent = spec.title;
    if (spec.heat) chart.heat(f.canvas, spec, heightOf(place)); else chart.plot(f.canvas, spec, heightOf(place));
    f.canvas.style.height = `${heightOf(place)}px`;
    legend(place, spec);
  }

  function numbers(lines) {
    const home = one("#numbers");
    while (home.children.length > lines.length) home.lastChild.remove();
    lines.forEach(([name, value, beside], place) => {
      let box = home.children[place];
      if (!box) { box = made("div"); box.append(made("dt"), made("dd"), made("dd")); home.append(box); }
      [name, value, beside].forEach((text, part) => { if (box.children[part].textContent !== text) box.children[part].textContent = text; });
    });
  }

  let shown = null;
  function draw() {
    const began = performance.now(), s = real ? real.settings : settings[model], engine = ENGINES[model];
    const first = real ? real.start : engine.start(s), done = real ? real.predicted ??= engine.run(s, first) : engine.run(s, first);
    const view = views[model](s, first, done, real);
    shown = { s, first, done, view };
    view.charts.forEach((spec, place) => paint(place, spec));
    numbers(view.numbers);
    show(settings[model]);
    lab.frames.push({ at: began, cost: performance.now() - began });
    if (lab.frames.length > 400) lab.frames.shift();
  }

  // What need not follow every frame: texts, the link, the line, descriptions of the charts.
  function settled() {
    if (!shown) return;
    history.replaceState(null, "", link());
    one("#line").textContent = commands[model](settings[model]);
    one("#note").textContent = commands.note(model, settings[model]);
    figures.forEach(({ canvas, spec }) => canvas.setAttribute("aria-label", described(spec)));
    one("#assumptions tbody").replaceChildren(...ENGINES[model].conditions(settings[model]).map(a => {
      const row = made("tr");
      row.append(made("th", a.name, { scope: "row" }), made("td", a.text), made("td", told(a.value)), made("td", `${a.sign} ${told(a.bound)}`), made("td", a.met ? "yes" : "no"));
      return row;
    }));
    for (const button of document.querySelectorAll(".picks button")) button.setAttribute("aria-pressed", String(button.dataset.story === story));
    narrate();
    document.body.dataset.ready = String(Number(document.body.dataset.ready || 0) + 1);
  }

  function described(spec) {
    if (spec.heat) return `${spec.title}: ${spec.describe}`;
    const ends = spec.series.filter(s => s.name && s.points.length).map(s => `${s.name} ends at ${told(s.points[s.points.length - 1][1])}`);
    return `${spec.title}. ${ends.join("; ")}. ${(spec.across || []).filter(l => l.value !== null).map(l => `${l.name}: ${told(l.value)}`).join("; ")}`;
  }

  function narrate() {
    const named = DATA.stories.find(s => s.name === story), home = one("#story");
    home.hidden = !named;
    if (!named || home.dataset.story === named.name) return;
    home.dataset.story = named.name;
    const question = made("p", "", { class: "question" });
    question.append(made("b", "Try: "), named.question);
    home.replaceChildren(made("h3", named.title), ...named.text.map(text => made("p", text)), question);
  }

  // --- the run for real

  const REAL = {
    at: "Gradient descent on all weights in d ≤ 2000 dimensions, on fresh points with noise σ_n (or one noiseless point a class), with the attack of §2.5 clipped patch by patch (coefficient by coefficient without noise); then the bracket of the robust accuracy over ℓ∞ balls. The curves begin at the run's own first weights.",
    fa: "Gradient descent on all weights (an isometric copy in law, whatever d is; n ≤ 1000), then the radius of 60 fresh points: exact for two labels, certified and attacked for more. The curves begin at the run's own points and weights.",
    cgro: "Gradient descent on all weights (an isometric copy in law, whatever d is; N ≤ 100, T ≤ 20 000), then the bracket of the robust accuracy over ℓ2 balls. The curves begin at the run's own points and weights.",
  };

  function forget() {
    if (stopping) stopping.abort();
    stopping = null;
    real = null;
    one("#real-table").hidden = true;
    one("#real-said").textContent = "";
    one("#stop").disabled = true;
    one("#run").disabled = !DATA.live;
  }

  const numeric = values => Object.fromEntries(Object.entries(values).map(([key, value]) => [key, Array.isArray(value) && key !== "cluster" && key !== "share" ? Float64Array.from(value) : value]));

  function event(got) {
    if (got.kind === "start") { real = { settings: got.settings, start: numeric(got.start), rows: [], exact: null }; one("#real-said").textContent = got.text; }
    if (got.kind === "row") { real.rows.push(got.row); one("#real-said").textContent = `step ${got.step} of ${got.steps}`; }
    if (got.kind === "radii") { real.exact = got.points || null; real.exactName = got.name || ""; table(got.table); }
    if (got.kind === "done") one("#real-said").textContent = got.text;
    if (got.kind === "error") one("#real-said").textContent = `error: ${got.text}`;
    refresh();
  }

  function table(rows) {
    const home = made("table"), head = made("tr"), box = one("#real-table");
    for (const name of rows[0]) head.append(made("th", name, { scope: "col" }));
    home.append(head);
    for (const row of rows.slice(1)) { const line = made("tr"); row.forEach((cell, place) => line.append(place === 0 ? made("th", cell, { scope: "row" }) : made("td", typeof cell === "number" ? told(cell) : cell))); home.append(line); }
    box.replaceChildren(home);
    box.hidden = false;
  }

  async function lines(body, take) {
    const reader = body.getReader(), decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      rest += done ? "" : decoder.decode(value, { stream: true });
      const parts = rest.split("\n");
      rest = parts.pop();
      for (const part of parts) if (part) take(JSON.parse(part));
      if (done) return;
    }
  }

  async function runForReal() {
    forget();
    const mine = stopping = new AbortController();
    one("#run").disabled = true;
    one("#stop").disabled = false;
    one("#real-said").textContent = "starting";
    try {
      const answer = await fetch("real", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ model, settings: settings[model] }), signal: mine.signal });
      if (!answer.ok) throw new Error(await answer.text());
      await lines(answer.body, got => { if (stopping === mine) event(got); });
    } catch (error) {
      if (error.name !== "AbortError" && stopping === mine) one("#real-said").textContent = `error: ${error.message}`;
    }
    if (stopping === mine) { one("#run").disabled = false; one("#stop").disabled = true; }
  }

  async function copy(text, what) {
    try { await navigator.clipboard.writeText(text); one("#said").textContent = `${what} copied`; } catch { one("#said").textContent = text; }
  }

  for (const name of Object.keys(ENGINES)) {
    const button = made("button", `${DATA.papers[name].short}`, { type: "button", "data-model": name, title: DATA.papers[name].title });
    button.addEventListener("click", () => { model = name; story = null; forget(); build(); refresh(); });
    one(".models").append(button);
  }
  one("#reset").addEventListener("click", () => { settings[model] = defaults(model); story = null; forget(); refresh(); });
  one("#link").addEventListener("click", () => copy(location.href.split("#")[0] + link(), "link"));
  one("#command").addEventListener("click", () => copy(commands[model](settings[model]), "command"));
  one("#run").addEventListener("click", runForReal);
  one("#stop").addEventListener("click", () => { if (stopping) stopping.abort(); one("#stop").disabled = true; one("#run").disabled = !DATA.live; one("#real-said").textContent = "stopped"; });
  if (!DATA.live) one("#real-about").before(made("p", "This copy of the page has no server: install featscope[lab] and start `featscope lab`.", { class: "note" }));
  document.addEventListener("featscope:theme", refresh);
  window.addEventListener("resize", refresh);
  window.addEventListener("hashchange", () => { if (location.hash !== link()) open(location.hash); });

  return { open, tell, change, link, frames: [], engines: ENGINES, settings: () => ({ ...settings[model] }), model: () => model, shown: () => shown, real: () => real };
})();
if (!lab.open(location.hash)) lab.tell(DATA.stories[0]);
