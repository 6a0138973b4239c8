// The page's data, and what the papers' asymptotic words mean for a finite setting (core/rules.py).
const DATA = JSON.parse(document.getElementById("data").textContent);
const MUCH = DATA.rules.much, CONSTANT = DATA.rules.constant;
const assumption = {
  least: (name, text, value, bound) => ({ name, text, value, bound, sign: "≥", met: value >= bound }),
  most: (name, text, value, bound) => ({ name, text, value, bound, sign: "≤", met: value <= bound }),
};
