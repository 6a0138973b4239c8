// The ledger: search, filter, sort; the state is in the address, so that a view can be shared.
(() => {
  "use strict";
  const contents = document.querySelector(".contents details");
  if (contents && matchMedia("(max-width: 1180px)").matches) contents.open = false;

  if (navigator.clipboard)
    for (const button of document.querySelectorAll(".copy")) {
      button.hidden = false;
    }
  document.addEventListener("click", async event => {
    const button = event.target.closest?.(".copy");
    if (!button) return;
    await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
    const label = button.firstChild;
    label.data = "Copied";
    setTimeout(() => { label.data = "Copy"; }, 1500);
  });

  const table = document.getElementById("lines");
  if (!table) return;
  const body = table.tBodies[0], form = document.querySelector(".filters"), rows = [...body.rows];
  const told = form.querySelector("output"), empty = document.querySelector(".empty");
  const texts = new Map();
  const text = row => {
    if (!texts.has(row)) texts.set(row, `${row.textContent} ${row.dataset.kind} ${row.id}`.toLowerCase());
    return texts.get(row);
  };
  const KEYS = ["word", "paper", "verdict", "kind"];
  form.hidden = false;

  const filter = () => {
    const wanted = Object.fromEntries(KEYS.map(key => [key, form.elements[key].value.trim()]));
    const words = wanted.word.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = ["paper", "verdict", "kind"].every(key => !wanted[key] || row.dataset[key] === wanted[key])
        && words.every(word => text(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    told.textContent = shown === rows.length ? `${shown} lines` : `${shown} of ${rows.length} lines`;
    empty.hidden = shown > 0;
    return new URLSearchParams(Object.entries(wanted).filter(([, value]) => value)).toString();
  };
  const keep = query => {
    const address = query ? `#ledger?${query}` : "#ledger";
    try { history.replaceState(null, "", address); } catch { /* a frame without history */ }
  };
  const choose = wanted => { for (const key of KEYS) form.elements[key].value = wanted[key] || ""; };

  form.addEventListener("input", () => keep(filter()));
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => keep(filter())));

  const LIKE_NUMBERS = new Set(["order", "value", "bound"]);
  const VERDICTS = [...form.elements.verdict.options].map(option => option.value);
  const keyed = (row, key) => {
    const value = row.dataset[key];
    if (key === "verdict") return VERDICTS.indexOf(value);
    if (!LIKE_NUMBERS.has(key)) return value;
    return value === undefined ? NaN : Number(value);
  };
  const compare = (a, b) => {
    if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return a - b;
  };
  const sort = (head, down) => {
    const key = head.dataset.sort;
    rows.sort((a, b) => {
      const [x, y] = [keyed(a, key), keyed(b, key)];
      const lacking = Number.isNaN(x) || Number.isNaN(y);
      return compare(x, y) * (down && !lacking ? -1 : 1) || a.dataset.order - b.dataset.order;
    });
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  for (const head of table.querySelectorAll("[data-sort]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => sort(head, head.getAttribute("aria-sort") === "ascending"));
  }

  const open = () => {
    const [place, query] = decodeURIComponent(location.hash.slice(1)).split(/\?(.*)/s);
    if (place === "ledger" && query !== undefined) {
      choose(Object.fromEntries(new URLSearchParams(query)));
      filter();
      document.getElementById("ledger").scrollIntoView();
      return;
    }
    const target = place && document.getElementById(place);
    if (!target) return;
    if (rows.includes(target)) {
      if (target.hidden) { choose({}); filter(); }
      target.querySelector("details").open = true;
    }
    for (let around = target.parentElement?.closest("details"); around; around = around.parentElement?.closest("details")) around.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  document.addEventListener("click", event => {
    const link = event.target.closest?.('a[href="#ledger"]');
    const wanted = link && Object.fromEntries(KEYS.map(key => [key, link.getAttribute(`data-filter-${key}`)]));
    if (!wanted || !Object.values(wanted).some(Boolean)) return;
    event.preventDefault();
    choose(wanted);
    const query = filter();
    history.pushState(null, "", `#ledger?${query}`);
    document.getElementById("ledger").scrollIntoView();
    form.elements.word.focus({ preventScroll: true });
  });
})();
