// CGRO: the strided recursion, as dynamics/signal_reduced.py has it.
const signal = (() => {
  "use strict";
  const RELATIVE = 0.1, MOST_STEPS = 400, FOLLOWED = 12, FRESH = 150, EVERY_FRESH = 8, PATCHES = 4, WIDTH = 10, PLATEAU = 2.3;

  const strength = s => s.d ** 0.249;
  const noiseScale = s => s.d ** -0.509;
  const rate = s => s.rate / strength(s) ** 2;
  const initial = s => 1 / Math.sqrt(s.d);
  const followed = s => Math.min(s.n, FOLLOWED);

  // u(0), v(0) (m, f(P−1)), the signed products of the followed noise patches, and normals for fresh points.
  function start(s) {
    const q = followed(s) * (PATCHES - 1), width = q + WIDTH, sigma = noiseScale(s);
    const rows = draws.bartlett(width, Math.max(s.d - 1, width + 1), s.seed, "signal/noise");
    const noise = rows.subarray(0, q * width), weights = rows.subarray(q * width);
    return {
      u: draws.normals(s.seed, "signal/u", WIDTH).map(x => initial(s) * x),
      v: draws.products(weights, WIDTH, noise, q, width).map(x => initial(s) * sigma * x),
      gram: draws.products(noise, q, noise, q, width).map(x => sigma * sigma * x),
      fresh: draws.normals(s.seed, "signal/fresh", FRESH * (PATCHES - 1) * WIDTH),
    };
  }

  function prepare(s, first) {
    const m = first.u.length, q = first.v.length / m, f = q / (PATCHES - 1), share = s.n / f, root = Math.sqrt(share);
    return {
      s, m, q, f, share, first, cube: strength(s) ** 3, rho: s.gap ** 3, eta: rate(s),
      met: Float64Array.from(first.gram, (x, at) => at % (q + 1) === 0 ? x : root * x),
      u: Float64Array.from(first.u), v: Float64Array.from(first.v), c: new Float64Array(m * q), time: 0,
      up: new Float64Array(m), grown: new Float64Array(m * q), moved: new Float64Array(m * q), halfU: new Float64Array(m), halfV: new Float64Array(m * q), V: new Float64Array(f),
    };
  }

  // α³U, and V_i in w.V.
  function outputs(w, u, v) {
    const { m, q, V } = w;
    let total = 0;
    for (let r = 0; r < m; r++) total += u[r] * u[r] * u[r];
    V.fill(0);
    for (let r = 0; r < m; r++) for (let i = 0, at = r * q; i < V.length; i++) {
      let sum = 0;
      for (let j = 0; j < PATCHES - 1; j++, at++) { const x = v[at]; sum += x * x * x; }
      V[i] += sum;
    }
    return w.cube * total;
  }

  const psi = z => 1 / (1 + Math.exp(z));

  // The increments of u, c and v in one step of descent.
  function velocity(w, u, v) {
    const { s, m, q, f } = w, alphaU = outputs(w, u, v), mixed = new Float64Array(f);
    let pull = 0;
    for (let i = 0; i < f; i++) {
      const clean = psi(alphaU + w.V[i]), attacked = psi(w.rho * alphaU + w.V[i]);
      pull += (1 - s.tradeoff) * clean + s.tradeoff * w.rho * attacked;
      mixed[i] = 3 * w.eta / s.n * ((1 - s.tradeoff) * clean + s.tradeoff * attacked);
    }
    pull /= f;
    for (let r = 0; r < m; r++) w.up[r] = 3 * w.eta * w.cube * pull * u[r] * u[r];
    const { met, moved, grown } = w;
    moved.fill(0);
    for (let r = 0; r < m; r++) for (let a = 0; a < q; a++) {
      const x = v[r * q + a], more = mixed[(a / (PATCHES - 1)) | 0] * x * x, to = r * q, row = a * q;
      grown[r * q + a] = more;
      for (let b = 0; b < q; b++) moved[to + b] += more * met[row + b];
    }
  }

  const largest = a => { let most = 0; for (let i = 0; i < a.length; i++) { const x = Math.abs(a[i]); if (x > most) most = x; } return most; };

  function stride(w) {
    let along = 0, most = 0;
    for (let r = 0; r < w.m; r++) along += w.u[r] * w.u[r] * w.up[r];
    const each = new Float64Array(w.f);
    for (let at = 0; at < w.v.length; at++) each[(at % w.q / (PATCHES - 1)) | 0] += w.v[at] * w.v[at] * w.moved[at];
    most = Math.max(3 * w.cube * Math.abs(along), 3 * largest(each));
    const speed = Math.max(largest(w.up) / largest(w.u), largest(w.moved) / largest(w.v), most / 5);
    return Math.max(1, Math.floor(RELATIVE / Math.max(speed, 1e-300)));
  }

  function advance(w, end) {
    velocity(w, w.u, w.v);
    const n = Math.min(stride(w), end - w.time);
    if (n > 1) {
      for (let r = 0; r < w.m; r++) w.halfU[r] = w.u[r] + n / 2 * w.up[r];
      for (let at = 0; at < w.v.length; at++) w.halfV[at] = w.v[at] + n / 2 * w.moved[at];
      velocity(w, w.halfU, w.halfV);
    }
    for (let r = 0; r < w.m; r++) w.u[r] += n * w.up[r];
    for (let at = 0; at < w.v.length; at++) { w.v[at] += n * w.moved[at]; w.c[at] += n * w.grown[at]; }
    w.time += n;
  }

  // ⟨w_r, w_r'⟩ off the signal, (m, m).
  function weightGram(w) {
    const { m, q, s, first } = w, half = new Float64Array(m * m), grown = new Float64Array(m * q);
    for (let r = 0; r < m; r++) for (let a = 0; a < q; a++) {
      const c = w.c[r * q + a] / 2;
      for (let b = 0; b < q; b++) grown[r * q + b] += c * first.gram[a * q + b];
    }
    for (let r = 0; r < m; r++) for (let p = 0; p < m; p++) {
      let sum = 0;
      for (let a = 0; a < q; a++) sum += w.c[r * q + a] * (first.v[p * q + a] + grown[p * q + a]);
      half[r * m + p] = sum;
    }
    return Float64Array.from(half, (x, at) => (at % (m + 1) === 0 ? initial(s) ** 2 * s.d : 0) + w.share * (x + half[at % m * m + Math.floor(at / m)]));
  }

  // L with L Lᵀ = gram; a pivot that rounding has made negative counts as 0.
  function lowerFactor(gram, size) {
    const low = new Float64Array(size * size);
    for (let j = 0; j < size; j++) for (let i = j; i < size; i++) {
      let rest = gram[i * size + j];
      for (let l = 0; l < j; l++) rest -= low[i * size + l] * low[j * size + l];
      if (i === j) low[i * size + j] = Math.sqrt(Math.max(rest, 0));
      else low[i * size + j] = low[j * size + j] > 0 ? rest / low[j * size + j] : 0;
    }
    return low;
  }

  // V of fresh points.
  function freshNoise(w) {
    const { m, s, first } = w, low = lowerFactor(weightGram(w), m), size = (PATCHES - 1) * m, scale = noiseScale(s) ** 3;
    const found = new Float64Array(first.fresh.length / size);
    for (let t = 0; t < found.length; t++) {
      let sum = 0;
      for (let p = 0; p < PATCHES - 1; p++) for (let r = 0; r < m; r++) {
        let seen = 0;
        for (let l = 0; l <= r; l++) seen += low[r * m + l] * first.fresh[t * size + p * m + l];
        sum += seen * seen * seen;
      }
      found[t] = scale * sum;
    }
    return found;
  }

  const sorted = a => Float64Array.from(a).sort();
  const median = a => { const b = sorted(a); return b[Math.floor((b.length - 1) / 2)]; };
  const share = (a, test) => { let count = 0; for (const x of a) if (test(x)) count++; return count / a.length; };

  function observe(w) {
    const alphaU = outputs(w, w.u, w.v), V = sorted(w.V);
    return { time: w.time, signal: alphaU, low: V[0], median: median(V), high: V[V.length - 1], cleanTrain: share(V, x => alphaU + x > 0), gtaTrain: share(V, x => w.rho * alphaU + x > 0) };
  }

  // How far along w* until α³(1−s)³U + V = 0, in units of α.
  const along = (alphaU, V) => 1 + Math.cbrt(V / alphaU);

  function tested(w, row) {
    const V = freshNoise(w);
    const radius = a => row.signal > 0 ? along(row.signal, median(a)) : null;
    return { time: w.time, cleanTest: share(V, x => row.signal + x > 0), gtaTest: share(V, x => w.rho * row.signal + x > 0), rms: Math.sqrt(V.reduce((a, x) => a + x * x, 0) / V.length), trainRadius: radius(w.V), freshRadius: radius(V), V };
  }

  function run(s, first = start(s)) {
    const w = prepare(s, first), rows = [], fresh = [], memorised = Array(w.f).fill(null);
    let signalAt = null;
    for (let t = 0; ; t++) {
      const row = observe(w), last = t >= MOST_STEPS || w.time >= s.steps || !isFinite(row.signal);
      if (!isFinite(row.signal)) break;
      rows.push(row);
      if (signalAt === null && row.signal >= 1) signalAt = w.time;
      w.V.forEach((x, i) => { if (memorised[i] === null && x >= 1) memorised[i] = w.time; });
      if (last || t % EVERY_FRESH === 0) { const found = tested(w, row); fresh.push(found); }
      if (last) break;
      advance(w, s.steps);
    }
    const times = memorised.filter(t => t !== null).sort((a, b) => a - b), middle = Math.floor((w.f - 1) / 2);
    const T1 = { first: times[0] ?? null, median: times[middle] ?? null, last: times.length === w.f ? times[w.f - 1] : null };
    return { rows, fresh, T0: signalAt, T1, state: { u: w.u, v: w.v, c: w.c, time: w.time } };
  }

  // T0, T1 and the plateau from the first components (docs/cgro.md), and N*.
  function predictions(s, first, done) {
    const eta = rate(s), alpha = strength(s), cube = alpha ** 3, sigma = noiseScale(s), q = first.v.length / WIDTH, push = new Float64Array(q / (PATCHES - 1));
    for (let r = 0; r < WIDTH; r++) for (let a = 0; a < q; a++) { const i = Math.floor(a / (PATCHES - 1)); push[i] = Math.max(push[i], first.gram[a * q + a] * first.v[r * q + a]); }
    const lead = Math.max(...first.u), middle = median(push);
    const T0 = lead > 0 && s.tradeoff < 1 ? 1 / (1.5 * eta * (1 - s.tradeoff) * cube * lead) : null;
    const T1 = middle > 0 && s.tradeoff > 0 ? 2 * s.n / (3 * eta * s.tradeoff * middle) : null;
    const grown = done && done.T1.median ? 9 * eta * (1 - s.tradeoff) * alpha ** 2 * done.T1.median : 0;
    let plateau = grown > Math.E ? Math.log(grown) : null;
    for (let i = 0; plateau !== null && i < 200; i++) plateau = Math.log(grown) + 4 / 3 * Math.log(plateau);
    return { T0, T1, plateau, order: s.n / (eta * initial(s) * sigma ** 3 * s.d ** 1.5), critical: critical(s), delta: (1 - s.gap) * alpha, alpha, rate: eta };
  }

  const critical = s => {
    const sigma = noiseScale(s), alpha = strength(s), v0 = 2 * initial(s) * sigma * Math.sqrt(s.d);
    return sigma ** 2 * s.d * v0 / ((alpha * s.gap) ** 3 * PLATEAU / alpha);
  };

  function conditions(s) {
    const alpha = strength(s), noise = noiseScale(s) ** 2 * (s.d - 1), radius = (1 - s.gap) * alpha;
    const half = same => Math.sqrt((same ? 4 : 2) * alpha ** 2 + 2 * (PATCHES - 1) * noise) / 2;
    return [
      assumption.most("samples", "N ≪ N*", s.n / critical(s), 1 / MUCH),
      assumption.most("radius-same", "δ ≤ half the class distance, signals at the same position", radius, half(true)),
      assumption.most("radius-apart", "δ ≤ half the class distance, signals at different positions", radius, half(false)),
      assumption.most("start", "ασ₀ < 1", alpha * initial(s), 1),
      assumption.most("step", "η(1−λ)α² ≤ 1", rate(s) * (1 - s.tradeoff) * alpha ** 2, 1),
      assumption.most("tradeoff", "λ < 1", s.tradeoff, 1 - 1e-12),
      assumption.most("room", "N(P−1) + m < d: the noise patches are independent", s.n * (PATCHES - 1) + WIDTH, s.d - 1),
      assumption.most("noise", "σ√d < α", noiseScale(s) * Math.sqrt(s.d) / alpha, 1),
    ];
  }

  return { start, run, predictions, conditions, rate, strength };
})();
