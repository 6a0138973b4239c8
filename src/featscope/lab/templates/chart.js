// Charts on a canvas, drawn anew in every frame: curves, lines of the theory, points of a real run, heat maps.
const chart = (() => {
  "use strict";
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  let inks = null;
  document.addEventListener("featscope:theme", () => { inks = null; });

  function ink() {
    if (inks === null) {
      const style = getComputedStyle(document.documentElement);
      inks = { ink: style.getPropertyValue("--ink").trim(), soft: style.getPropertyValue("--soft").trim(), line: style.getPropertyValue("--line").trim(), page: style.getPropertyValue("--page").trim() };
    }
    return inks;
  }

  const raised = n => String(n).split("").map(sign => SUPER[sign]).join("");

  // A number for people: three digits, powers of ten where there are many zeros.
  function told(x, digits = 3) {
    if (x === null || x === undefined || Number.isNaN(x)) return "–";
    if (!isFinite(x)) return x > 0 ? "∞" : "−∞";
    const size = Math.abs(x);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) {
      const power = Math.floor(Math.log10(size) + 1e-12), front = Number((x / 10 ** power).toPrecision(digits));
      return (front === 1 ? "" : `${front}·`.replace("-", "−")) + `10${raised(power)}`;
    }
    return String(Number(x.toPrecision(digits))).replace("-", "−");
  }

  function sized(canvas, height) {
    const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = FONT;
    return { pen, width, height };
  }

  function ticks(axis, room) {
    const found = [];
    if (axis.log) {
      const low = Math.log10(axis.min), high = Math.log10(axis.max), every = Math.max(1, Math.ceil((high - low) / room));
      for (let p = Math.ceil(low - 1e-9); p <= high + 1e-9; p += every) found.push([10 ** p, p >= 0 && p <= 3 ? String(10 ** p) : `10${raised(p)}`]);
      if (found.length < 2) for (const x of [axis.min, axis.max]) found.push([x, told(x, 2)]);
      return found;
    }
    const span = axis.max - axis.min || 1, rough = span / room, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(f => f * power).find(x => x >= rough);
    for (let x = Math.ceil(axis.min / step - 1e-9) * step; x <= axis.max + 1e-9 * span; x += step) found.push([x, told(Math.abs(x) < 1e-12 * span ? 0 : x, 4)]);
    return found;
  }

  const placed = (axis, from, to) => axis.log
    ? x => from + (to - from) * (Math.log(Math.max(x, axis.min * 1e-12)) - Math.log(axis.min)) / (Math.log(axis.max) - Math.log(axis.min))
    : x => from + (to - from) * (x - axis.min) / (axis.max - axis.min || 1);

  function frame(pen, spec, box) {
    const { ink: dark, soft, line } = ink(), at = { x: placed(spec.x, box.left, box.right), y: placed(spec.y, box.bottom, box.top) };
    pen.strokeStyle = line; pen.fillStyle = soft; pen.lineWidth = 1; pen.setLineDash([]);
    pen.textAlign = "center"; pen.textBaseline = "top";
    for (const [x, text] of ticks(spec.x, Math.max(2, (box.right - box.left) / 80))) {
      const px = at.x(x);
      pen.beginPath(); pen.moveTo(px, box.top); pen.lineTo(px, box.bottom); pen.stroke();
      pen.fillText(text, px, box.bottom + 5);
    }
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const [y, text] of ticks(spec.y, Math.max(2, (box.bottom - box.top) / 45))) {
      const py = at.y(y);
      pen.beginPath(); pen.moveTo(box.left, py); pen.lineTo(box.right, py); pen.stroke();
      pen.fillText(text, box.left - 6, py);
    }
    pen.fillStyle = dark; pen.textAlign = "center"; pen.textBaseline = "bottom";
    pen.fillText(spec.x.label, (box.left + box.right) / 2, box.bottom + 36);
    pen.textAlign = "left"; pen.textBaseline = "top";
    pen.fillText(spec.y.label, 2, 2);
    return at;
  }

  function stroke(pen, look, width) {
    pen.strokeStyle = look.colour; pen.lineWidth = width;
    pen.setLineDash(look.dash[1] ? look.dash : []);
  }

  function curve(pen, at, box, series) {
    stroke(pen, series.look, series.width || 2);
    pen.beginPath();
    let open = false;
    for (const [x, y] of series.points) {
      if (y === null || !isFinite(y)) { open = false; continue; }
      const px = at.x(x), py = Math.min(Math.max(at.y(y), box.top - 1e4), box.bottom + 1e4);
      if (open) pen.lineTo(px, py); else pen.moveTo(px, py);
      open = true;
    }
    pen.stroke();
  }

  function dots(pen, at, series) {
    pen.setLineDash([]); pen.lineWidth = 1.5; pen.strokeStyle = series.look.colour; pen.fillStyle = series.hollow ? ink().page : series.look.colour;
    for (const [x, y] of series.points) {
      if (y === null || !isFinite(y)) continue;
      pen.beginPath(); pen.arc(at.x(x), at.y(y), series.size || 3.2, 0, 2 * Math.PI); pen.fill(); pen.stroke();
    }
  }

  // spec: x and y {label, log, min, max}; series [{name, look, points, dots}]; across and upright [{value, name, look}]; shade [{from, to, colour}].
  function plot(canvas, spec, height) {
    const { pen, width } = sized(canvas, height), box = { left: 52, right: width - 12, top: 24, bottom: height - 40 };
    for (const shade of spec.shade || []) {
      const at = placed(spec.x, box.left, box.right), from = Math.max(at(shade.from), box.left), to = Math.min(at(shade.to), box.right);
      if (to > from) { pen.globalAlpha = 0.12; pen.fillStyle = shade.look.colour; pen.fillRect(from, box.top, to - from, box.bottom - box.top); pen.globalAlpha = 1; }
    }
    const at = frame(pen, spec, box);
    pen.save();
    pen.beginPath(); pen.rect(box.left - 1, box.top - 1, box.right - box.left + 2, box.bottom - box.top + 2); pen.clip();
    for (const line of spec.across || []) if (line.value !== null && isFinite(line.value)) { stroke(pen, line.look, 1.6); pen.beginPath(); pen.moveTo(box.left, at.y(line.value)); pen.lineTo(box.right, at.y(line.value)); pen.stroke(); }
    for (const line of spec.upright || []) if (line.value !== null && isFinite(line.value)) { stroke(pen, line.look, 1.6); pen.beginPath(); pen.moveTo(at.x(line.value), box.top); pen.lineTo(at.x(line.value), box.bottom); pen.stroke(); }
    for (const series of spec.series) (series.dots ? dots(pen, at, series) : curve(pen, at, box, series));
    pen.restore();
  }

  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  function heatColour(x) {
    const place = Math.min(Math.max(x, 0), 1) * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2), part = place - low;
    return `rgb(${VIRIDIS[low].map((c, i) => Math.round(c + part * (VIRIDIS[low + 1][i] - c))).join(",")})`;
  }

  // spec: rows [[value]] from −1 to 1, rowLabel, columnLabel; colours run from 0 to 1.
  function heat(canvas, spec, height) {
    const { pen, width } = sized(canvas, height), { ink: dark, soft } = ink();
    const rows = spec.rows.length, columns = spec.rows[0].length, box = { left: 30, right: width - 58, top: 24, bottom: height - 40 };
    const wide = (box.right - box.left) / columns, tall = (box.bottom - box.top) / rows;
    spec.rows.forEach((row, j) => row.forEach((value, r) => {
      pen.fillStyle = heatColour(Math.abs(value));
      pen.fillRect(box.left + r * wide, box.top + j * tall, wide - 1, tall - 1);
    }));
    pen.fillStyle = soft; pen.textAlign = "right"; pen.textBaseline = "middle";
    for (let j = 0; j < rows; j++) pen.fillText(String(j + 1), box.left - 5, box.top + (j + 0.5) * tall);
    pen.fillStyle = dark; pen.textAlign = "left"; pen.textBaseline = "top"; pen.fillText(spec.rowLabel, 2, 2);
    pen.textAlign = "center"; pen.textBaseline = "bottom"; pen.fillText(spec.columnLabel, (box.left + box.right) / 2, box.bottom + 36);
    const from = width - 44, step = (box.bottom - box.top) / 40;
    for (let i = 0; i < 40; i++) { pen.fillStyle = heatColour(1 - i / 39); pen.fillRect(from, box.top + i * step, 12, step + 1); }
    pen.fillStyle = soft; pen.textAlign = "left"; pen.textBaseline = "middle";
    for (const value of [0, 0.5, 1]) pen.fillText(String(value), from + 16, box.bottom - value * (box.bottom - box.top));
  }

  return { plot, heat, told };
})();
