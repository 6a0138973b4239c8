// The page's colours, before anything is drawn: as the reader chose, or as the system asks.
(() => {
  "use strict";
  const asked = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("featscope-theme") || ""; } catch { return ""; } };
  const apply = () => {
    const chosen = kept();
    document.documentElement.dataset.theme = chosen || (asked.matches ? "dark" : "light");
    for (const button of document.querySelectorAll("[data-theme-to]"))
      button.setAttribute("aria-pressed", String(button.dataset.themeTo === chosen));
    document.dispatchEvent(new Event("featscope:theme"));
  };
  apply();
  asked.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", apply);
  document.addEventListener("click", event => {
    const button = event.target.closest?.("[data-theme-to]");
    if (!button) return;
    try { localStorage.setItem("featscope-theme", button.dataset.themeTo); } catch { /* a page without storage */ }
    apply();
  });
})();
