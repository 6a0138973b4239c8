// AT: the recursions of Lemmas D.4 and D.16 to D.18 in their small-step limit, as dynamics/patch_recursion.py has them.
const patch = (() => {
  "use strict";
  const RELATIVE = 0.03, MOST_STEPS = 1200, BISECTIONS = 30, EVERY_RADIUS = 20;
  const RHO = 1, BETA = 1, WIDTH = 10;

  const horizon = s => s.d ** 1.5;
  const amplitudes = s => [s.ratio * BETA, BETA];
  const counts = s => [s.robust, s.weak];

  // U, V (k, m, k) and the Gram matrix of the initial directions (km, km), σ0 = 1/√d; E starts as the identity.
  function start(s) {
    const size = s.k * WIDTH, scale = 1 / Math.sqrt(s.d);
    const u = draws.normals(s.seed, "patch/u", size * s.k).map(x => scale * x);
    const v = draws.normals(s.seed, "patch/v", size * s.k).map(x => scale * x);
    if (s.training === "standard" || s.clip === "features-only") return { u, v, gram: null };
    const rows = draws.bartlett(size, s.d - 2 * s.k, s.seed, "patch/rest").map(x => scale * x);
    return { u, v, gram: draws.products(rows, size, rows, size, size) };
  }

  const clamped = z => z <= 0 ? 0 : z >= RHO ? 1 : z / RHO;
  const power = (c, n) => n === 2 ? c * c : n === 3 ? c * c * c : n === 1 ? c : c ** n;
  const slopeOf = (z, q) => power(clamped(z), q - 1);
  const valueOf = (z, q) => RHO / q * power(clamped(z), q) + (z > RHO ? z - RHO : 0);

  // The state and the room for one step of it; points are one a class, groups are robust (0) and non-robust (1).
  function prepare(s, first) {
    const { k } = s, m = WIDTH, size = k * m, moving = first.gram !== null;
    const e = new Float64Array(moving ? size * size : 0);
    for (let i = 0; moving && i < size; i++) e[i * size + i] = 1;
    return {
      s, k, m, size, moving, amplitude: amplitudes(s), count: counts(s),
      adversarial: s.training === "adversarial", twoSided: s.clip !== "as-printed",
      u: Float64Array.from(first.u), v: Float64Array.from(first.v), e, gram: first.gram, met: moving ? Float64Array.from(first.gram) : null, time: 0,
      du: new Float64Array(size * k), dv: new Float64Array(size * k), de: new Float64Array(e.length), dmet: new Float64Array(e.length),
      lowerU: new Float64Array(k), lowerV: new Float64Array(k), lowerE: new Float64Array(moving ? size : 0),
      xu: new Float64Array(2 * k * k), xv: new Float64Array(2 * k * k), gamma: new Float64Array(moving ? 2 * k * size : 0),
      slope: new Float64Array(2 * k * size), output: new Float64Array(k * k), weight: new Float64Array(2 * k * size),
    };
  }

  // Lemma D.17: what every patch becomes, coefficient by coefficient. Without an attack it stays as it is.
  function perturb(w) {
    const { s, k, m, size, lowerU, lowerV, lowerE } = w;
    w.xu.fill(0); w.xv.fill(0); w.gamma.fill(0);
    for (let y = 0; y < k; y++) for (let g = 0; g < 2; g++) {
      const at = (2 * y + g) * k;
      (g === 0 ? w.xu : w.xv)[at + y] = w.amplitude[g];
      if (!w.adversarial) continue;
      lowerU.fill(0); lowerV.fill(0); lowerE.fill(0);
      for (let r = 0; r < m; r++) {
        const row = y * m + r;
        const own = slopeOf(w.amplitude[g] * (g === 0 ? w.u : w.v)[row * k + y], s.q);
        if (own === 0) continue;
        for (let j = 0; j < k; j++) { lowerU[j] += own * w.u[row * k + j]; lowerV[j] += own * w.v[row * k + j]; }
        for (let l = 0; l < lowerE.length; l++) lowerE[l] += own * w.e[row * size + l];
      }
      const clip = x => { const z = x * s.step; return z > s.eps ? s.eps : w.twoSided && z < -s.eps ? -s.eps : z; };
      for (let j = 0; j < k; j++) { w.xu[at + j] -= clip(lowerU[j]); w.xv[at + j] -= clip(lowerV[j]); }
      for (let l = 0; l < lowerE.length; l++) w.gamma[(2 * y + g) * size + l] = -clip(lowerE[l]);
    }
  }

  // Outputs and slopes at the patches of `perturb`.
  function look(w) {
    const { k, m, size, s, xu, xv, u, v, output } = w;
    output.fill(0);
    for (let p = 0; p < 2 * k; p++) for (let i = 0; i < k; i++) {
      let sum = 0;
      for (let row = i * m; row < (i + 1) * m; row++) {
        let z = 0;
        for (let j = 0; j < k; j++) z += xu[p * k + j] * u[row * k + j] + xv[p * k + j] * v[row * k + j];
        if (w.moving) for (let l = 0; l < size; l++) z += w.gamma[p * size + l] * w.met[row * size + l];
        if (z <= 0) { w.slope[p * size + row] = 0; continue; }
        w.slope[p * size + row] = slopeOf(z, s.q);
        sum += valueOf(z, s.q);
      }
      output[(p >> 1) * k + i] += w.count[p & 1] * sum;
    }
  }

  // (1{y=i} − logit_i) σ̃' with multiplicities and the mean over points. 1 − logit_y is the sum of the other logits: the
  // difference is lost to rounding where F_y is far above the others.
  function pulls(w) {
    const { k, m, size } = w;
    for (let y = 0; y < k; y++) {
      let top = -Infinity, others = 0;
      for (let i = 0; i < k; i++) top = Math.max(top, w.output[y * k + i]);
      for (let i = 0; i < k; i++) if (i !== y) others += Math.exp(w.output[y * k + i] - top);
      const total = others + Math.exp(w.output[y * k + y] - top);
      for (let i = 0; i < k; i++) {
        const pull = (i === y ? others : -Math.exp(w.output[y * k + i] - top)) / total / k;
        for (let g = 0; g < 2; g++) for (let r = 0; r < m; r++) {
          const at = (2 * y + g) * size + i * m + r;
          w.weight[at] = w.slope[at] * pull * w.count[g];
        }
      }
    }
  }

  // Lemmas D.4 and D.18 per unit of η; every update is linear in the weights of `pulls`.
  function velocity(w) {
    const { k, size } = w;
    perturb(w); look(w); pulls(w);
    w.du.fill(0); w.dv.fill(0); w.de.fill(0); w.dmet.fill(0);
    for (let p = 0; p < 2 * k; p++) {
      let seen = null;
      if (w.moving) {
        seen = new Float64Array(size);
        for (let l = 0; l < size; l++) { const a = w.gamma[p * size + l]; if (a !== 0) for (let h = 0; h < size; h++) seen[h] += a * w.gram[l * size + h]; }
      }
      for (let row = 0; row < size; row++) {
        const pulled = w.weight[p * size + row];
        if (pulled === 0) continue;
        for (let j = 0; j < k; j++) { w.du[row * k + j] += pulled * w.xu[p * k + j]; w.dv[row * k + j] += pulled * w.xv[p * k + j]; }
        if (w.moving) for (let l = 0; l < size; l++) { w.de[row * size + l] += pulled * w.gamma[p * size + l]; w.dmet[row * size + l] += pulled * seen[l]; }
      }
    }
  }

  // The largest speed of an output at fixed inputs.
  function outputSpeed(w) {
    const { k, m, size } = w;
    let most = 0;
    for (let y = 0; y < k; y++) for (let i = 0; i < k; i++) {
      let speed = 0;
      for (let g = 0; g < 2; g++) {
        const p = 2 * y + g;
        for (let row = i * m; row < (i + 1) * m; row++) {
          const slope = w.slope[p * size + row];
          if (slope === 0) continue;
          let z = 0;
          for (let j = 0; j < k; j++) z += w.xu[p * k + j] * w.du[row * k + j] + w.xv[p * k + j] * w.dv[row * k + j];
          if (w.moving) for (let l = 0; l < size; l++) z += w.gamma[p * size + l] * w.dmet[row * size + l];
          speed += w.count[g] * slope * z;
        }
      }
      most = Math.max(most, Math.abs(speed));
    }
    return most;
  }

  const largest = a => { let most = 0; for (let i = 0; i < a.length; i++) { const x = Math.abs(a[i]); if (x > most) most = x; } return most; };
  const ratio = (top, bottom) => Math.min(top / Math.max(bottom, 1e-290), 1e250);

  function advance(w, end) {
    velocity(w);
    const room = Math.min(5 * ratio(1, outputSpeed(w)), ratio(largest(w.u), largest(w.du)), ratio(largest(w.v), largest(w.dv)));
    const eta = Math.min(RELATIVE * room, Math.max(end - w.time, 0));
    for (let i = 0; i < w.u.length; i++) { w.u[i] += eta * w.du[i]; w.v[i] += eta * w.dv[i]; }
    for (let i = 0; i < w.e.length; i++) { w.e[i] += eta * w.de[i]; w.met[i] += eta * w.dmet[i]; }
    w.time += eta;
  }

  // A and B by class, the largest C and D, and how far E has left the identity.
  function observe(w) {
    const { k, m, size } = w, A = [], B = [];
    let C = -Infinity, D = -Infinity, E = 0;
    for (let i = 0; i < k; i++) {
      let a = -Infinity, b = -Infinity;
      for (let row = i * m; row < (i + 1) * m; row++) for (let j = 0; j < k; j++) {
        const u = w.u[row * k + j], v = w.v[row * k + j];
        if (j === i) { a = Math.max(a, u); b = Math.max(b, v); } else { C = Math.max(C, u); D = Math.max(D, v); }
      }
      A.push(a); B.push(b);
    }
    for (let i = 0; i < w.e.length; i++) E = Math.max(E, Math.abs(w.e[i] - (i % (size + 1) === 0 ? 1 : 0)));
    return { time: w.time, A, B, C, D, E };
  }

  // F_y − F_j of the clean point of class y when every patch loses ε along u_y and v_y and gains ε along u_j and v_j.
  function spanMargin(w, y, j, eps) {
    const { k, m, s } = w;
    let margin = 0;
    for (let g = 0; g < 2; g++) for (const [i, sign] of [[y, 1], [j, -1]])
      for (let row = i * m; row < (i + 1) * m; row++) {
        const u = row * k, own = (g === 0 ? w.u : w.v)[u + y];
        margin += sign * w.count[g] * valueOf(w.amplitude[g] * own + eps * (w.u[u + j] + w.v[u + j] - w.u[u + y] - w.v[u + y]), s.q);
      }
    return margin;
  }

  // The radius at which that perturbation turns the point of each class: by halving [0, α].
  function radii(w) {
    const found = [];
    const worst = (y, eps) => { let least = Infinity; for (let j = 0; j < w.k; j++) if (j !== y) least = Math.min(least, spanMargin(w, y, j, eps)); return least; };
    for (let y = 0; y < w.k; y++) {
      let low = 0, high = worst(y, 0) > 0 ? w.amplitude[0] : 0;
      for (let i = 0; high > 0 && i < BISECTIONS; i++) { const mid = (low + high) / 2; if (worst(y, mid) > 0) low = mid; else high = mid; }
      found.push(low);
    }
    return found;
  }

  // Where ΣB^q makes the attack cancel β (Lemma D.23), with the third that Θ(·) allows.
  const cancels = s => RHO ** (s.q - 1) / (s.step * BETA ** (s.q - 2)) / 3;
  const powers = (w, i) => { let sum = 0; for (let row = i * w.m; row < (i + 1) * w.m; row++) sum += Math.max(w.v[row * w.k + i], 0) ** w.s.q; return sum; };

  // Whether every class had F_y ≥ ln d when outputs were last looked at: where the lemmas end (D.10, D.25).
  function learned(w) {
    for (let y = 0; y < w.k; y++) if (w.output[y * w.k + y] < Math.log(w.s.d)) return false;
    return true;
  }

  function run(s, first = start(s)) {
    const w = prepare(s, first), rows = [], radius = [], end = horizon(s);
    const events = { robust: Array(s.k).fill(null), weak: Array(s.k).fill(null), cancels: Array(s.k).fill(null) };
    for (let t = 0; ; t++) {
      const row = observe(w);
      rows.push(row);
      for (let i = 0; i < s.k; i++) {
        if (events.robust[i] === null && row.A[i] >= RHO / w.amplitude[0]) events.robust[i] = w.time;
        if (events.weak[i] === null && row.B[i] >= RHO / w.amplitude[1]) events.weak[i] = w.time;
        if (w.adversarial && events.cancels[i] === null && powers(w, i) >= cancels(s)) events.cancels[i] = w.time;
      }
      const last = t >= MOST_STEPS || w.time >= end || learned(w);
      if (last || t % EVERY_RADIUS === 0) radius.push({ time: w.time, each: radii(w) });
      if (last) break;
      advance(w, end);
    }
    return { rows, radius, events, state: { u: w.u, v: w.v, e: w.e, time: w.time } };
  }

  // States before and after every so many steps, for a second implementation to be held against.
  function pairs(s, first, every) {
    const w = prepare(s, first), end = horizon(s), found = [];
    const copy = () => ({ u: Array.from(w.u), v: Array.from(w.v), e: Array.from(w.e), time: w.time });
    for (let t = 0; t < MOST_STEPS && w.time < end; t++) {
      const before = t % every === 0 ? copy() : null;
      advance(w, end);
      if (before) found.push({ before, after: copy() });
    }
    return found;
  }

  // Σ_R α^q against Σ_NR β^q: which feature grows first under standard training.
  const strengths = s => [s.robust * (s.ratio * BETA) ** s.q, s.weak * BETA ** s.q];
  // ε at which |J|(a − ε)^q = P ε^q: a network of these features alone cannot be robust beyond.
  const featureRadius = (amplitude, count, s) => amplitude / (1 + ((s.robust + s.weak) / count) ** (1 / s.q));

  function predictions(s) {
    const [alpha, beta] = amplitudes(s), [strong, dense] = strengths(s);
    return { strong, dense, boundary: (s.weak / s.robust) ** (1 / s.q), robustRadius: featureRadius(alpha, s.robust, s), weakRadius: featureRadius(beta, s.weak, s), cancels: cancels(s) ** (1 / s.q) };
  }

  function conditions(s) {
    const [alpha, beta] = amplitudes(s), noise = s.sigma_n * Math.sqrt(s.d);
    const away = x => x > 0 ? Math.abs(Math.log(x)) : Infinity;
    const [strong, dense] = [s.robust * alpha ** 3, s.weak * beta ** 3];
    return [
      assumption.least("A2.3 strong", "α ≫ β", alpha / beta, MUCH),
      assumption.least("A2.3 dense", "Σ_R α^τ ≪ Σ_NR β^τ, τ = 3", dense / strong, MUCH),
      assumption.least("B.3 room", "d ≫ 2k", s.d / (2 * s.k), MUCH),
      assumption.most("B.3 noise", "σ_n = Θ(1/√d)", away(noise), Math.log(CONSTANT)),
      assumption.least("B.3 α ≫ ε", "α ≫ ε", alpha / s.eps, MUCH),
      assumption.least("B.3 ε > β", "ε > β", s.eps / beta, 1),
      assumption.most("§2.5 ε = Θ(σ_n√d)", "ε = Θ(σ_n√d)", noise > 0 ? away(s.eps / noise) : Infinity, Math.log(CONSTANT)),
      assumption.least("halfway", "α ≥ 2ε: halfway between two classes is out of reach", alpha, 2 * s.eps),
      assumption.most("B.3 step", "η̃ = d^c₀, 0 < c₀ < 1", Math.abs(Math.log(s.step) / Math.log(s.d) - 0.5), 0.5),
    ];
  }

  return { start, run, pairs, predictions, conditions, WIDTH, BETA };
})();
