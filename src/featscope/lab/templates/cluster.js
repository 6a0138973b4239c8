// FA: the orthogonal-noise recursion, as dynamics/cluster_reduced.py has it.
const cluster = (() => {
  "use strict";
  const FOLLOWED = 16, RECORDED = 25;

  const neurons = s => s.groups === 2 ? 5 : 1;
  const rate = s => s.rate / s.d;
  const initial = s => s.init / s.d;
  const sign = (s, j) => j < s.plus ? 1 : -1;

  // The label group of each cluster, in order; none has clusters of both signs.
  function groupOf(s) {
    const { k, plus, groups } = s;
    const first = Math.min(Math.max(Math.floor(groups * plus / k + 0.5), 1, groups - (k - plus)), plus, groups - 1);
    const found = [];
    for (let j = 0; j < plus; j++) found.push(Math.floor(j * first / plus));
    for (let j = 0; j < k - plus; j++) found.push(first + Math.floor(j * (groups - first) / (k - plus)));
    return found;
  }

  // Lower-triangular L with L Lᵀ = the features' cosines.
  function featureFactor(s) {
    const { k } = s, low = new Float64Array(k * k);
    for (let i = 0; i < k; i++) for (let j = 0; j <= i; j++) {
      let rest = i === j ? 1 : s.cosine;
      for (let l = 0; l < j; l++) rest -= low[i * k + l] * low[j * k + l];
      low[i * k + j] = i === j ? Math.sqrt(rest) : rest / low[j * k + j];
    }
    return low;
  }

  // Gaussian vectors seen along the features: (rows, k) of N(0, d·cosines).
  function seenAlong(s, name, rows, scale) {
    const { k } = s, low = featureFactor(s), raw = draws.normals(s.seed, name, rows * k), found = new Float64Array(rows * k);
    const size = scale * Math.sqrt(s.d);
    for (let r = 0; r < rows; r++) for (let j = 0; j < k; j++) {
      let sum = 0;
      for (let l = 0; l <= j; l++) sum += low[j * k + l] * raw[r * k + l];
      found[r * k + j] = size * sum;
    }
    return found;
  }

  // How many points each cluster has: n/k with the spread of a multinomial, at least one.
  function sizes(s) {
    const spread = Math.sqrt(s.n / s.k * (1 - 1 / s.k));
    return Array.from(draws.normals(s.seed, "cluster/sizes", s.k), g => Math.max(1, Math.round(s.n / s.k + spread * g)));
  }

  function start(s) {
    const count = s.groups * neurons(s), owner = [], share = [];
    sizes(s).forEach((size, j) => {
      const followed = Math.min(size, FOLLOWED);
      for (let i = 0; i < followed; i++) { owner.push(j); share.push(size / followed); }
    });
    const f = owner.length, scale = initial(s) * Math.sqrt(s.d);
    return {
      along: seenAlong(s, "cluster/along", count, initial(s)),
      across: draws.normals(s.seed, "cluster/across", count * f).map(x => scale * x),
      crossed: seenAlong(s, "cluster/crossed", f, 1),
      cluster: owner, share,
    };
  }

  function prepare(s, first) {
    const h = neurons(s), count = s.groups * h, f = first.cluster.length;
    const groups = groupOf(s);
    return {
      s, h, count, f, k: s.k, first, groups, label: first.cluster.map(j => groups[j]),
      n: first.share.reduce((a, b) => a + b, 0), root: first.share.map(Math.sqrt),
      c: new Float64Array(count * f), lambda: new Float64Array(count * s.k), centre: new Float64Array(count * s.k),
      z: new Float64Array(count), F: new Float64Array(s.groups), slope: new Float64Array(s.groups),
    };
  }

  // λ (N, k) and ⟨w_r, μ_j⟩ (N, k) of the summed C.
  function gather(w) {
    const { k, f, s, first } = w, met = new Float64Array(k);
    for (let r = 0; r < w.count; r++) {
      const lam = w.lambda.subarray(r * k, (r + 1) * k);
      lam.fill(0); met.fill(0);
      for (let i = 0; i < f; i++) {
        const c = w.c[r * f + i];
        if (c === 0) continue;
        lam[first.cluster[i]] += s.d * c * first.share[i];
        const part = c * w.root[i];
        for (let j = 0; j < k; j++) met[j] += part * first.crossed[i * k + j];
      }
      let total = 0;
      for (let j = 0; j < k; j++) total += lam[j];
      for (let j = 0; j < k; j++) w.centre[r * k + j] = first.along[r * k + j] + (1 - s.cosine) * lam[j] + s.cosine * total + met[j];
    }
  }

  // ⟨w_r, x_i⟩ of one point for all neurons.
  function hidden(w, i) {
    const { k, f, s, first } = w, j = first.cluster[i];
    for (let r = 0; r < w.count; r++) {
      let noise = first.across[r * f + i] + s.d * w.c[r * f + i], seen = 0;
      for (let l = 0; l < k; l++) seen += w.lambda[r * k + l] * first.crossed[i * k + l];
      w.z[r] = w.centre[r * k + j] + noise + seen / s.d;
    }
  }

  function outputs(w) {
    for (let g = 0; g < w.F.length; g++) {
      let sum = 0;
      for (let r = g * w.h; r < (g + 1) * w.h; r++) sum += Math.max(w.z[r], 0);
      w.F[g] = sum / w.h;
    }
  }

  // 1{own} − p of each group, the own entry as the sum of the others: late in training 1 − p is all rounding.
  function pulls(w, own) {
    let top = -Infinity, total = 0, others = 0;
    for (const F of w.F) top = Math.max(top, F);
    for (let g = 0; g < w.F.length; g++) { w.slope[g] = Math.exp(w.F[g] - top); total += w.slope[g]; }
    for (let g = 0; g < w.F.length; g++) if (g !== own) { w.slope[g] = -w.slope[g] / total; others -= w.slope[g]; }
    w.slope[own] = others;
  }

  // One step of descent; margins are F_own − max of the others, before the step.
  function advance(w, eta) {
    let least = Infinity;
    for (let i = 0; i < w.f; i++) {
      hidden(w, i); outputs(w); pulls(w, w.label[i]);
      let rival = -Infinity;
      for (let g = 0; g < w.F.length; g++) if (g !== w.label[i]) rival = Math.max(rival, w.F[g]);
      least = Math.min(least, w.F[w.label[i]] - rival);
      for (let r = 0; r < w.count; r++) if (w.z[r] >= 0) w.c[r * w.f + i] += eta / w.n * (w.slope[Math.floor(r / w.h)] / w.h);
    }
    gather(w);
    return least;
  }

  // ‖Σ_r ω_r w_r‖²; first weights count as orthogonal, of norm σ_w√d.
  function squaredNorm(w, mixed) {
    const { k, f, s, first } = w, used = [];
    for (let r = 0; r < w.count; r++) if (mixed[r] !== 0) used.push(r);
    let flat = 0, total = 0, noise = 0, cross = 0, begun = 0;
    for (let j = 0; j < k; j++) {
      let lam = 0;
      for (const r of used) lam += mixed[r] * w.lambda[r * k + j];
      flat += lam * lam; total += lam;
    }
    for (let i = 0; i < f; i++) {
      let c = 0, z = 0;
      for (const r of used) { c += mixed[r] * w.c[r * f + i]; z += mixed[r] * (first.along[r * k + first.cluster[i]] + first.across[r * f + i]); }
      noise += c * c * first.share[i]; cross += z * c * first.share[i];
    }
    for (const r of used) begun += mixed[r] ** 2;
    return ((1 - s.cosine) * flat + s.cosine * total * total) / s.d + noise * s.d + 2 * cross + begun * initial(s) ** 2 * s.d;
  }

  const rooted = x => Math.sqrt(Math.max(x, 0));

  // Cosine of feature j with neuron r, (k, N): Figure 2.
  function cosines(w) {
    const found = [];
    const norms = Array.from({ length: w.count }, (_, r) => rooted(squaredNorm(w, Float64Array.from({ length: w.count }, (_, q) => q === r ? 1 : 0))));
    for (let j = 0; j < w.k; j++) found.push(norms.map((norm, r) => norm > 0 ? w.centre[r * w.k + j] / (norm * Math.sqrt(w.s.d)) : 0));
    return found;
  }

  // How far the centre of each cluster is from the plane on which its active own neurons meet all of a rival group.
  function radii(w) {
    const { s, k, h } = w, found = [], lengths = new Map();
    for (let c = 0; c < k; c++) {
      const rivals = new Set(w.groups.filter((_, j) => sign(s, j) !== sign(s, c)));
      let least = Infinity;
      for (const t of rivals) {
        const mixed = new Float64Array(w.count);
        let gap = 0, active = 0;
        for (let r = 0; r < h; r++) {
          const own = w.groups[c] * h + r, rival = t * h + r, z = w.centre[own * k + c];
          if (z > 0) { mixed[own] = 1 / h; gap += z / h; active |= 1 << r; }
          mixed[rival] = -1 / h;
          gap -= w.centre[rival * k + c] / h;
        }
        const key = `${w.groups[c]} ${t} ${active}`;
        if (!lengths.has(key)) lengths.set(key, rooted(squaredNorm(w, mixed)));
        const length = lengths.get(key);
        least = Math.min(least, length > 0 ? Math.max(gap, 0) / length : 0);
      }
      found.push(least);
    }
    return found;
  }

  function observe(w, t) {
    const { k, f, s } = w;
    let low = Infinity, high = -Infinity, sum = 0, own = 0, other = 0, noise = 0, points = 0, top = -Infinity;
    for (let r = 0; r < w.count; r++) {
      const group = Math.floor(r / w.h);
      for (let j = 0; j < k; j++) {
        const lam = w.lambda[r * k + j];
        if (w.groups[j] === group) { low = Math.min(low, lam); high = Math.max(high, lam); sum += lam; own++; } else other = Math.max(other, Math.abs(lam));
      }
      for (let i = 0; i < f; i++) if (w.label[i] === group) { const x = s.d * w.c[r * f + i]; noise += x; points++; top = Math.max(top, x); }
    }
    return { step: t, lambdaMin: low, lambdaMax: high, lambdaMean: sum / own, lambdaOther: other, sigmaMean: noise / points, sigmaMax: top, radii: radii(w) };
  }

  function run(s, first = start(s)) {
    const w = prepare(s, first), every = Math.max(1, Math.ceil(s.steps / RECORDED)), rows = [];
    gather(w);
    rows.push(observe(w, 0));
    let memory = null;
    for (let t = 0; t < s.steps; t++) {
      const margin = advance(w, rate(s));
      if (memory === null && margin > 0) memory = t;
      if ((t + 1) % every === 0 || t + 1 === s.steps) rows.push(observe(w, t + 1));
    }
    return { rows, cosines: cosines(w), groups: w.groups, h: w.h, separated: memory, state: { c: w.c, lambda: w.lambda, centre: w.centre } };
  }

  // √(d/(|s|+|t|)), the least over groups of opposite sign.
  function averaged(s) {
    const groups = groupOf(s), most = { "1": 0, "-1": 0 };
    groups.forEach((g, j) => { most[sign(s, j)] = Math.max(most[sign(s, j)], groups.filter(other => other === g).length); });
    return Math.sqrt(s.d / (most["1"] + most["-1"]));
  }

  const balance = s => Math.max(s.plus / (s.k - s.plus), (s.k - s.plus) / s.plus);

  function predictions(s) {
    return { averaged: averaged(s), coarse: Math.sqrt(s.d / s.k), fine: Math.sqrt(s.d / 2), factor: Math.sqrt(s.k / 2), fools: 2 * (1 + balance(s)) * Math.sqrt(s.d / s.k), safe: Math.sqrt(s.d) / 10, rate: rate(s), initial: initial(s), perfect: 1 / Math.sqrt(s.groups === 2 ? s.plus : 1) };
  }

  function conditions(s) {
    const m = 5, small = rate(s) * s.k ** -5 * (1 + 1e-9);
    return [
      assumption.most("A3.2", "features are orthogonal", Math.abs(s.cosine), 0),
      assumption.most("A3.3", "balance of J₊ and J₋ is Θ(1)", balance(s), CONSTANT),
      assumption.least("A4.3.d", "d ≥ k^10", s.d, s.k ** 10),
      assumption.least("A4.3.n", "n ≥ k^7", s.n, s.k ** 7),
      assumption.most("A4.3.n-top", "ln n ≤ ln² d", Math.log(s.n), Math.log(s.d) ** 2),
      assumption.most("A4.3.m", "m = Θ(k)", Math.max(m / s.k, s.k / m), CONSTANT),
      assumption.most("A4.3.eta", "η ≤ d^−2", rate(s), s.d ** -2 * (1 + 1e-9)),
      assumption.most("A4.3.w", "σ_w² ≤ η k^−5", initial(s) ** 2, small),
    ];
  }

  return { start, run, predictions, conditions, groupOf, neurons, rate, initial };
})();
