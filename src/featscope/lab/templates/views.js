// What each model shows: three charts, and the numbers that matter with what the theory says of them.
const views = (() => {
  "use strict";
  const LOOK = DATA.looks, told = chart.told;
  const dashed = (look, dash) => ({ colour: look.colour, dash });
  const FINE = [2, 2], SOLID = [1, 0], LONG = [9, 4];
  const line = (name, value, look) => ({ name, value, look });
  const series = (name, look, points, more = {}) => ({ name, look, points, ...more });
  const bounds = (values, low, high) => {
    const found = values.filter(x => x !== null && isFinite(x) && x > 0);
    return [Math.min(low, ...found), Math.max(high, ...found)];
  };
  const percent = x => x === null || x === undefined ? "–" : `${Math.round(1000 * x) / 10} %`;
  const first = times => { const there = times.filter(t => t !== null); return there.length ? Math.min(...there) : null; };
  const spread = values => values.length ? `${told(Math.min(...values))} … ${told(Math.max(...values))}` : "–";
  const median = values => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

  function at(s, begun, done, real) {
    const p = patch.predictions(s), rows = done.rows.filter(row => row.time > 0), last = done.rows[done.rows.length - 1];
    const start = rows.length ? rows[0].time : 1, end = Math.max(last.time, start * 10);
    const seen = real ? real.rows : [], from = real && seen.length > 1 ? Math.min(start, seen[1].time || start) : start;
    const classes = [...Array(s.k).keys()];
    const by = (key, look, name) => classes.map(i => series(i === 0 ? name : "", dashed(look, SOLID), rows.map(row => [row.time, row[key][i]]), { width: i === 0 ? 2.4 : 1.6 }));
    const [low, high] = bounds(rows.flatMap(row => [...row.A, ...row.B]), 1 / Math.sqrt(s.d), 2);
    const events = done.events, arrived = first(events.robust), weak = first(events.weak), cancelled = first(events.cancels);
    const adversarial = s.training === "adversarial";
    const main = {
      title: adversarial ? "Adversarial training: A to E over time" : "Standard training: A to D over time",
      x: { label: "time, η times steps", log: true, min: from, max: end }, y: { label: "coefficient", log: true, min: low / 2, max: high * 2 },
      shade: adversarial && cancelled !== null ? [{ from: cancelled, to: arrived ?? end, look: LOOK.theory }] : [],
      series: [
        ...by("A", LOOK.robust, "A, robust feature (a line a class)"), ...by("B", LOOK["non-robust"], "B, non-robust feature"),
        series("C, robust feature of another class", dashed(LOOK.robust, FINE), rows.map(row => [row.time, row.C]), { width: 1.4 }),
        series("D, non-robust feature of another class", dashed(LOOK["non-robust"], FINE), rows.map(row => [row.time, row.D]), { width: 1.4 }),
        ...(last.E > 0 ? [series("E, change of the initial directions", dashed(LOOK["category 3"], LONG), rows.map(row => [row.time, row.E]), { width: 1.4 })] : []),
        ...(seen.length ? classes.flatMap(i => [
          series(i === 0 ? "full descent, A" : "", LOOK.robust, seen.map(row => [row.time, row.A[i]]), { dots: true, hollow: true }),
          series(i === 0 ? "full descent, B" : "", LOOK["non-robust"], seen.map(row => [row.time, row.B[i]]), { dots: true, hollow: true }),
        ]) : []),
      ],
      across: [line(`ϱ/α, where the robust feature has arrived`, 1 / s.ratio, dashed(LOOK.robust, LONG)), line("ϱ/β, where the non-robust one has", 1, dashed(LOOK["non-robust"], LONG)),
        ...(adversarial ? [line("where the attack cancels β: ΣB^q ≈ 1/η̃", p.cancels, dashed(LOOK.theory, FINE))] : [])],
    };
    const radii = {
      title: "Radius of an explicit attack on the features",
      x: main.x, y: { label: "ε at which the point of a class turns", min: 0, max: 1.1 * Math.max(s.eps, p.robustRadius, p.weakRadius, ...done.radius.flatMap(r => r.each)) },
      series: classes.map(i => series(i === 0 ? "−ε on own features, +ε on the rival's" : "", dashed(LOOK.attacked, SOLID), done.radius.filter(r => r.time > 0).map(r => [r.time, r.each[i]]))),
      across: [line("ε of the attack", s.eps, LOOK.reference), line("limit of robust features alone", p.robustRadius, dashed(LOOK.robust, LONG)), line("limit of non-robust features alone", p.weakRadius, dashed(LOOK["non-robust"], LONG))],
    };
    const most = 60, boundary = [];
    for (let x = 1; x <= most; x *= 1.06) boundary.push([x, x ** (1 / s.q)]);
    const map = {
      title: "Which feature is learned first: the predicted line",
      x: { label: "|J_NR| ÷ |J_R|", log: true, min: 1, max: most }, y: { label: "α/β", min: 1, max: 12 },
      series: [series("Σα^q = Σβ^q: above it the robust feature", LOOK.theory, boundary), series("here", LOOK["category 1"], [[Math.min(Math.max(s.weak / s.robust, 1), most), s.ratio]], { dots: true, size: 6 })],
    };
    const winner = last.A.map((a, i) => a / (1 / s.ratio) > last.B[i]);
    return {
      charts: [main, radii, map],
      numbers: [
        ["Σα^q against Σβ^q", `${told(p.strong)} against ${told(p.dense)}`, p.strong > p.dense ? "standard training learns the robust feature" : "standard training learns the non-robust feature"],
        ["largest A at the end", spread(last.A), arrived === null ? "none has arrived" : `first at time ${told(arrived)}`],
        ["largest B at the end", spread(last.B), weak === null ? "none has arrived" : `first at time ${told(weak)}`],
        ...(adversarial ? [["the attack cancels β", cancelled === null ? "not yet" : `at time ${told(cancelled)}`, `predicted at B ≈ ${told(p.cancels)}`]] : []),
        ["α·A beats B in", `${winner.filter(Boolean).length} of ${s.k} classes`, ""],
        ["radius at the end", spread(done.radius[done.radius.length - 1].each), `ε is ${told(s.eps)}`],
      ],
    };
  }

  function fa(s, begun, done, real) {
    const p = cluster.predictions(s), rows = done.rows, last = rows[rows.length - 1], seen = real ? real.rows : [];
    const top = Math.max(...rows.map(r => r.lambdaMax), ...seen.map(r => r.lambdaMax), 1e-9);
    const draw = (name, look, key, more) => series(name, look, rows.map(r => [r.step, r[key]]), more);
    const main = {
      title: s.groups === 2 ? "2-class network: λ and σ over the steps" : `Network with ${s.groups} label groups: λ and σ over the steps`,
      x: { label: "steps of descent", min: 0, max: s.steps }, y: { label: "coefficient", min: Math.min(0, ...rows.map(r => r.lambdaMin)), max: 1.08 * top },
      series: [
        draw("λ of own features: least, mean, largest", dashed(LOOK.robust, SOLID), "lambdaMean", { width: 2.6 }), draw("", dashed(LOOK.robust, FINE), "lambdaMin", { width: 1.4 }), draw("", dashed(LOOK.robust, FINE), "lambdaMax", { width: 1.4 }),
        draw("|λ| of other features, largest", dashed(LOOK["non-robust"], LONG), "lambdaOther"), draw("σ of own points, mean", dashed(LOOK["category 3"], SOLID), "sigmaMean"),
        ...(seen.length ? [series("full descent, mean λ", LOOK.robust, seen.map(r => [r.step, r.lambdaMean]), { dots: true, hollow: true }), series("full descent, other |λ|", LOOK["non-robust"], seen.map(r => [r.step, r.lambdaOther]), { dots: true, hollow: true }), series("full descent, mean σ", LOOK["category 3"], seen.map(r => [r.step, r.sigmaMean]), { dots: true, hollow: true })] : []),
      ],
    };
    const measured = real && real.exact ? real.exact : [];
    const radii = {
      title: "Radius of the clusters' centres",
      x: main.x, y: { label: "ℓ2 radius", min: 0, max: 1.12 * Math.max(p.fine, ...last.radii, ...measured.map(m => m[1])) },
      series: [
        series("predicted, least to largest of the clusters", dashed(LOOK.attacked, SOLID), rows.map(r => [r.step, Math.min(...r.radii)])), series("", dashed(LOOK.attacked, SOLID), rows.map(r => [r.step, Math.max(...r.radii)])),
        ...(measured.length ? [series(real.exactName, LOOK.certified, measured, { dots: true })] : []),
      ],
      across: [line("√(d/k), averaging in two labels", p.coarse, dashed(LOOK["non-robust"], LONG)), line("√(d/2), every cluster apart", p.fine, dashed(LOOK.robust, LONG)), ...(s.groups > 2 && s.groups < s.k ? [line("√(d/(|s|+|t|)), averaging in these groups", p.averaged, LOOK.theory)] : [])],
    };
    const own = [], other = [];
    done.cosines.forEach((row, j) => row.forEach((value, r) => (done.groups[j] === Math.floor(r / done.h) ? own : other).push(value)));
    const map = { title: "Cosine of every feature with every neuron", heat: true, rows: done.cosines, rowLabel: "feature μ_j", columnLabel: `neurons, ${done.h} of each label`, series: [], describe: `own cosines ${spread(own)}, others at most ${told(Math.max(...other.map(Math.abs)))}` };
    return {
      charts: [main, radii, map],
      numbers: [
        ["own λ, largest ÷ least", last.lambdaMin > 0 ? told(last.lambdaMax / last.lambdaMin) : "∞", "1 is perfect averaging"],
        ["own cosine", `${told(own.reduce((a, b) => a + b, 0) / own.length)} on average`, s.groups === 2 ? `perfect averaging: 1/√|J₊| = ${told(p.perfect)}` : s.groups === s.k ? "1 is one cluster a neuron" : ""],
        ["radius of a centre", `${told(median(last.radii))} (${spread(last.radii)})`, `perfect averaging in these groups: ${told(p.averaged)}`],
        ["√(d/k) and √(d/2)", `${told(p.coarse)} and ${told(p.fine)}`, `apart by √(k/2) = ${told(p.factor)}`],
        ["all followed points right", done.separated === null ? "not yet" : `after step ${done.separated}`, ""],
        ["η and σ_w", `${told(p.rate)} and ${told(p.initial)}`, ""],
      ],
    };
  }

  function cgro(s, begun, done, real) {
    const p = signal.predictions(s, begun, done), rows = done.rows.filter(r => r.time > 0), last = done.rows[done.rows.length - 1], seen = real ? real.rows.filter(r => r.time > 0) : [];
    const end = Math.max(s.steps, 10), tested = done.fresh.filter(r => r.time > 0), final = done.fresh[done.fresh.length - 1];
    const [, high] = bounds(rows.flatMap(r => [r.signal, r.high]), 1e-3, 10);
    const draw = (name, look, key, more) => series(name, look, rows.map(r => [r.time, r[key]]), more);
    const main = {
      title: "Signal first, then noise: α³U and V over the steps",
      x: { label: "steps of descent", log: true, min: 1, max: end }, y: { label: "output", log: true, min: 1e-3, max: 2 * high },
      shade: done.T0 !== null ? [{ from: Math.max(done.T0, 1), to: done.T1.median ?? end, look: LOOK.theory }] : [],
      series: [
        draw("α³U, the signal", dashed(LOOK.clean, SOLID), "signal", { width: 2.6 }), draw("V_i of training points: median", dashed(LOOK["category 3"], SOLID), "median", { width: 2.2 }), draw("V_i, least and largest", dashed(LOOK["category 3"], FINE), "low", { width: 1.3 }), draw("", dashed(LOOK["category 3"], FINE), "high", { width: 1.3 }),
        ...(seen.length ? [series("full descent, α³U", LOOK.clean, seen.map(r => [r.time, r.signal]), { dots: true, hollow: true }), series("full descent, median V_i", LOOK["category 3"], seen.map(r => [r.time, r.median]), { dots: true, hollow: true })] : []),
      ],
      upright: [line("T₀ predicted from u(0)", p.T0, dashed(LOOK.clean, LONG)), line("T₁ predicted from v(0)", p.T1, dashed(LOOK["category 3"], LONG))],
      across: [line("plateau of α³U predicted", p.plateau, dashed(LOOK.theory, FINE))],
    };
    const accuracy = {
      title: "Accuracy of clean and of attacked points",
      x: main.x, y: { label: "share of points that are right", min: 0, max: 1.05 },
      series: [
        series("clean test", dashed(LOOK.clean, SOLID), tested.map(r => [r.time, r.cleanTest])), series("attacked training points", dashed(LOOK.robust, LONG), rows.map(r => [r.time, r.gtaTrain])), series("attacked test points", dashed(LOOK["non-robust"], SOLID), tested.map(r => [r.time, r.gtaTest])),
        ...(seen.length ? [series("full descent, attacked test", LOOK["non-robust"], seen.map(r => [r.time, r.gtaTest]), { dots: true, hollow: true }), series("full descent, attacked training", LOOK.robust, seen.map(r => [r.time, r.gtaTrain]), { dots: true, hollow: true })] : []),
      ],
    };
    const boundary = [];
    for (let gap = 1e-6; gap <= 0.5; gap *= 1.2) boundary.push([gap, p.critical * (s.gap / gap) ** 3]);
    const map = {
      title: "Memorisation or signal: the predicted N*",
      x: { label: "1−γ", log: true, min: 1e-6, max: 0.5 }, y: { label: "N", log: true, min: 1, max: 1e5 },
      series: [series("N*: below it noise is memorised, above it the signal wins", LOOK.theory, boundary), series("here", LOOK["category 1"], [[s.gap, s.n]], { dots: true, size: 6 })],
    };
    return {
      charts: [main, accuracy, map],
      numbers: [
        ["T₀, α³U ≥ 1", told(done.T0), `predicted ${told(p.T0)}`],
        ["T₁, V_i ≥ 1 (first, median, last)", `${told(done.T1.first)}, ${told(done.T1.median)}, ${told(done.T1.last)}`, `median predicted ${told(p.T1)}`],
        ["α³U at the end", told(last.signal), `plateau predicted ${told(p.plateau)}`],
        ["N against N*", `${told(s.n)} against ${told(p.critical)}`, s.n > p.critical ? "the signal should win" : "the noise should be memorised"],
        ["attacked points right", `train ${percent(last.gtaTrain)}, test ${percent(final && final.gtaTest)}`, ""],
        ["radius along w*, in units of α", `train ${told(final && final.trainRadius)}, test ${told(final && final.freshRadius)}`, `δ/α = γ = ${told(1 - s.gap, 4)}`],
        ["η", told(p.rate), `α = ${told(p.alpha)}, δ = ${told(p.delta)}`],
      ],
    };
  }

  return { at, fa, cgro };
})();
