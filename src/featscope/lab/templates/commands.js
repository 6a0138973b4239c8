// The `featscope run` line of the settings.
const commands = (() => {
  "use strict";
  const LARGEST_DESCENT = 2000;
  const number = x => Number.isInteger(x) && Math.abs(x) < 1e15 ? String(x) : String(Number(x.toPrecision(12)));
  const line = (name, sets, profile = "") => ["featscope run " + name + profile, ...Object.entries(sets).map(([key, value]) => {
    const text = Array.isArray(value) ? `'${key}=[${value.map(x => typeof x === "number" ? number(x) : `"${x}"`).join(",")}]'` : `${key}=${typeof value === "number" ? number(value) : value}`;
    return `--set ${text}`;
  })].join(" ");

  const law = s => ({ "law.k": s.k, "law.patches": s.robust + s.weak, "law.robust_patches": s.robust, "law.alpha": s.ratio, "law.beta": 1, "eps": s.eps, "net.q": s.q });

  // One run at d by full descent where that is possible, and the recursion along d beyond.
  function at(s) {
    const power = Math.log(s.step) / Math.log(s.d);
    if (s.d > LARGEST_DESCENT && power > 0 && power < 1) {
      const arm = s.training === "standard" ? "standard" : s.clip;
      const below = [...new Set([100, Math.round(Math.sqrt(100 * s.d)), s.d])];
      return line("patch-scaling", { ...law(s), "dimensions": below, "c0": power, "arms": [arm], "net.width": patch.WIDTH, "seeds": [s.seed] });
    }
    const batch = s.sigma_n > 0 && s.batch < 100 ? s.batch : "null", d = Math.min(s.d, LARGEST_DESCENT);
    return line("patch-fig3", {
      ...law(s), "law.d": d, "law.sigma_n": s.sigma_n, "net.width": patch.WIDTH, "net.sigma_0": 1 / Math.sqrt(d), "arms": [s.training],
      [`${s.training}.learning_rate`]: s.rate, [`${s.training}.epochs`]: s.steps, [`${s.training}.batch_size`]: batch,
      ...(s.training === "adversarial" ? { "adversarial.step_size": s.step } : {}), "seeds": [s.seed],
    });
  }

  function fa(s) {
    const n = Math.min(s.n, 20000), roomy = s.d - s.k >= n + 10 + s.k;
    return line("clusters-fig3", {
      "law.k": s.k, "law.d": s.d, "law.positive": s.plus, "law.cosine": s.cosine, "training.n": n, "training.learning_rate": cluster.rate(s),
      "training.init_weight": cluster.initial(s), "training.init_bias": cluster.initial(s), "training.steps": s.steps, "training.compact": String(roomy), "seeds": [s.seed],
    });
  }

  // Steps of the exact recursion that end in days, not in years.
  const affordable = s => Math.min(s.steps, Math.floor(3e9 / (30 * s.n)));

  function cgro(s) {
    const roomy = s.d - 1 >= s.n * 3 + 10, steps = affordable(s);
    return line("signal-stages", {
      "law.d": s.d, "n": s.n, "tradeoff": s.tradeoff, "law.gap": s.gap, "learning_rate": signal.rate(s), "steps": steps, "every": Math.max(1, Math.round(steps / 150)),
      "compact": String(roomy), "verify_steps": s.d > 1e5 ? 0 : Math.min(steps, 300), "seeds": [s.seed],
    });
  }

  // What the line leaves out of the settings, if anything.
  function note(model, s) {
    if (model === "at" && s.d > LARGEST_DESCENT && !(Math.log(s.step) / Math.log(s.d) > 0 && Math.log(s.step) < Math.log(s.d))) return `patch-scaling takes η̃ = d^c₀ with 0 < c₀ < 1 only; the line runs full descent at d = ${LARGEST_DESCENT}.`;
    if (model === "at" && s.d > LARGEST_DESCENT) return "patch-scaling follows the recursion along d; noise, batches and η are those of full descent.";
    if (model === "fa" && s.groups > 2 && s.groups < s.k) return "clusters-fig3 trains the 2-class and the k-class network; label groups in between are the lab's alone.";
    if (model === "cgro" && affordable(s) < s.steps) return `The line stops at T = ${affordable(s)}.`;
    if (model === "fa" && s.n > 20000) return "The line stops at n = 20000.";
    return "";
  }

  return { at, fa, cgro, note };
})();
