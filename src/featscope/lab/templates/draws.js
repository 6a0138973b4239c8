// Random numbers that depend on a seed and a name alone, so that moving one slider changes no draw of another.
const draws = (() => {
  "use strict";

  function hash(text) {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return h >>> 0;
  }

  // A counter passed through a bijection of 32 bits ("splitmix"), 53 bits of it at a time.
  function uniform(seed, name) {
    let state = hash(`${seed}/${name}`);
    const word = () => {
      state = (state + 0x9e3779b9) >>> 0;
      let z = state;
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
      return (z ^ (z >>> 15)) >>> 0;
    };
    return () => ((word() >>> 5) * 67108864 + (word() >>> 6) + 0.5) / 9007199254740992;
  }

  function normal(seed, name) {
    const next = uniform(seed, name);
    let spare = null;
    return () => {
      if (spare !== null) { const kept = spare; spare = null; return kept; }
      const length = Math.sqrt(-2 * Math.log(next())), angle = 2 * Math.PI * next();
      spare = length * Math.sin(angle);
      return length * Math.cos(angle);
    };
  }

  function normals(seed, name, count) {
    const next = normal(seed, name), found = new Float64Array(count);
    for (let i = 0; i < count; i++) found[i] = next();
    return found;
  }

  // √χ² with any number of degrees of freedom ≥ 2: twice a gamma variable, by Marsaglia and Tsang's rejection.
  function chi(freedom, seed, name) {
    const u = uniform(seed, name + "/u"), g = normal(seed, name + "/g");
    const shift = freedom / 2 - 1 / 3, scale = 1 / Math.sqrt(9 * shift);
    for (;;) {
      const x = g(), cube = (1 + scale * x) ** 3;
      if (cube > 0 && Math.log(u()) < 0.5 * x * x + shift - shift * cube + shift * Math.log(cube))
        return Math.sqrt(2 * shift * cube);
    }
  }

  // The lower-triangular copy in law of `count` Gaussian vectors in `dim` dimensions (laws/compact.py), row by row.
  function bartlett(count, dim, seed, name) {
    const rows = new Float64Array(count * count);
    for (let i = 0; i < count; i++) {
      rows.set(normals(seed, `${name}/${i}`, i), i * count);
      rows[i * count + i] = chi(dim - i, seed, `${name}/${i}/length`);
    }
    return rows;
  }

  // a bᵀ for rows a (p, width) and b (q, width).
  function products(a, p, b, q, width) {
    const found = new Float64Array(p * q);
    for (let i = 0; i < p; i++) for (let j = 0; j < q; j++) {
      let sum = 0;
      for (let l = 0; l < width; l++) sum += a[i * width + l] * b[j * width + l];
      found[i * q + j] = sum;
    }
    return found;
  }

  return { uniform, normals, chi, bartlett, products };
})();
