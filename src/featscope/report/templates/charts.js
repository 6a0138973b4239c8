// Pictures: a still image is there from the beginning; when one comes into view the interactive chart takes its place.
(() => {
  "use strict";
  const charts = [...document.querySelectorAll(".chart[data-spec]")];
  if (!charts.length || !window.IntersectionObserver) return;
  const parsed = id => JSON.parse(document.getElementById(id).textContent);
  const themes = parsed("themes");
  const NARROW = 620, MARGIN = 96;

  const vega = () => {
    if (!window.vegaEmbed) {
      const script = document.createElement("script");
      script.textContent = `(() => {${document.getElementById("vega").textContent}})();`;
      document.head.append(script);
    }
    return window.vegaEmbed;
  };

  const limited = (view, most) => {
    if (typeof view.width === "number" && view.width > most) view.width = most;
    for (const inner of [...(view.layer || []), ...(view.vconcat || []), ...(view.hconcat || []), ...(view.concat || []), ...(view.spec ? [view.spec] : [])]) limited(inner, most);
  };
  // A legend in columns of its own is one column where there is no room.
  const narrowed = node => {
    if (!node || typeof node !== "object") return;
    if (node.legend && typeof node.legend === "object" && node.legend.columns) node.legend.columns = 1;
    for (const [key, inner] of Object.entries(node)) if (key !== "values" && key !== "datasets") narrowed(inner);
  };
  const widthOf = view => typeof view.width === "number" ? view.width : 300;
  // Panels side by side go below one another where they do not fit.
  const reflowed = (spec, width) => {
    for (const key of ["hconcat", "concat"]) {
      if (!Array.isArray(spec[key])) continue;
      const panels = spec[key], widest = Math.max(...panels.map(widthOf)) + MARGIN;
      delete spec[key];
      spec.concat = panels;
      spec.columns = Math.max(1, Math.floor(width / widest));
    }
    for (const inner of spec.vconcat || []) reflowed(inner, width);
    limited(spec, Math.max(180, width - MARGIN));
    return spec;
  };
  const fitted = (box, spec) => {
    const room = box.clientWidth, natural = Number(box.querySelector("img").getAttribute("width"));
    const config = structuredClone(themes[document.documentElement.dataset.theme] || themes.light);
    config.aria = false;
    if (room < natural) {
      reflowed(spec, room);
      if (room < NARROW) {
        narrowed(spec);
        config.legend = { ...config.legend, orient: "bottom", columns: 1, direction: "vertical" };
      }
    }
    return { ...spec, config };
  };

  // The drawing is one image with its text; the switches beside it stay what they are.
  const named = (place, text) => {
    for (const name of ["role", "aria-label", "aria-roledescription"]) place.removeAttribute(name);
    const drawing = place.querySelector("canvas");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", text);
  };

  const shown = new Map();
  const show = async box => {
    const still = box.querySelector("img");
    const place = document.createElement("div");
    place.className = "vega";
    const spec = fitted(box, parsed(box.dataset.spec));
    const made = await vega()(place, spec, { mode: "vega-lite", actions: false, renderer: "canvas", tooltip: { theme: document.documentElement.dataset.theme } });
    named(place, box.dataset.alt);
    shown.get(box)?.finalize();
    box.querySelector(".vega")?.remove();
    box.append(place);
    box.classList.add("live");
    await made.view.resize().runAsync();
    shown.set(box, made);
    still.loading = "eager";
    box.dataset.width = box.clientWidth;
    if (box.scrollWidth > box.clientWidth + 1) { box.tabIndex = 0; box.setAttribute("role", "group"); box.setAttribute("aria-label", "chart, scrolls sideways"); }
    box.closest("figure").querySelector(".tools").hidden = false;
  };

  // One at a time, so that the page answers between two of them.
  let queue = Promise.resolve();
  const later = box => {
    queue = queue.then(() => new Promise(resolve => setTimeout(resolve)))
      .then(() => show(box))
      .catch(error => { console.error(`${box.dataset.spec}: ${error.message}`); });
    return queue;
  };
  const seen = new IntersectionObserver(entries => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) { seen.unobserve(target); later(target); }
  }, { rootMargin: "200px" });
  charts.forEach(box => seen.observe(box));

  const again = () => { for (const box of shown.keys()) later(box); };
  let theme = document.documentElement.dataset.theme, timer;
  document.addEventListener("featscope:theme", () => {
    if (document.documentElement.dataset.theme === theme) return;
    theme = document.documentElement.dataset.theme;
    again();
  });
  addEventListener("resize", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      for (const box of shown.keys()) if (Math.abs(box.clientWidth - box.dataset.width) > 24) later(box);
    }, 250);
  });

  const MOST_ROWS = 300;
  const tables = spec => {
    const found = [];
    const walk = node => {
      if (!node || typeof node !== "object") return;
      if (Array.isArray(node.values) && node.values.length && typeof node.values[0] === "object") found.push(node.values);
      for (const [key, inner] of Object.entries(node)) if (key !== "values") walk(inner);
    };
    for (const rows of Object.values(spec.datasets || {})) found.push(rows);
    walk({ ...spec, datasets: null });
    return found;
  };
  const said = value => typeof value === "number" ? String(Number(value.toPrecision(6)))
    : typeof value === "string" && value.startsWith("data:") ? "image" : value === null || value === undefined ? "" : String(value);
  const listed = rows => {
    const columns = [...new Set(rows.flatMap(Object.keys))];
    const table = document.createElement("table");
    table.className = "data";
    const head = table.createTHead().insertRow();
    for (const name of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = name;
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rows.slice(0, MOST_ROWS)) {
      const line = body.insertRow();
      for (const name of columns) line.insertCell().textContent = said(row[name]);
    }
    if (rows.length > MOST_ROWS) table.createCaption().textContent = `the first ${MOST_ROWS} of ${rows.length} rows`;
    return table;
  };
  const toggleTable = (figure, button) => {
    const old = figure.querySelector(".points");
    button.setAttribute("aria-expanded", String(!old));
    button.textContent = old ? "Show the data" : "Hide the data";
    if (old) { old.remove(); return; }
    const box = document.createElement("div");
    box.className = "scroll points";
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "data of the picture");
    box.append(...tables(parsed(figure.querySelector(".chart").dataset.spec)).map(listed));
    button.parentElement.after(box);
  };
  const save = async (figure, format) => {
    const made = shown.get(figure.querySelector(".chart"));
    const link = document.createElement("a");
    link.download = `${figure.id}.${format}`;
    link.href = await made.view.toImageURL(format, 2);
    link.click();
  };
  document.addEventListener("click", event => {
    const button = event.target.closest?.(".tools button");
    if (!button) return;
    const figure = button.closest("figure");
    if (button.dataset.save) save(figure, button.dataset.save);
    else toggleTable(figure, button);
  });
})();
