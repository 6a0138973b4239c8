"""FA's inductions (Lemmas B.7 and C.10, and the steps of their proofs), read a second time."""

import math

from second_fa_openings import bound_opens, proof, stays, window_opens
from second_reading import all_of, exact, num, outside, rows, second, top

from featscope.core.rules import SPEAKS

PLACES = ["learning_rate", "epsilon", "most_steps"]
NETS = {"FA-LB.7": "binary", "FA-LC.10": "fine", "2-class": "binary", "k-class": "fine"}
WHERE = "(first steps|whole flow(?:, large)?)"


def course(run, net, where):
    """The rows of the first steps, or those of the flow, without what is recorded at step 0."""
    found = rows(run, "start", net=net) if where == "first steps" else rows(run, net)
    return [row for row in found if row["step"] >= 1]


def timed(run, found, told):
    """Outside of t ≤ T₀ where a row is later."""
    p = proof(run)
    steps = top(row["time"] for row in found) / p["learning_rate"]
    late = steps > p["most_steps"] * (1 + 1e-9)
    text = f"t ≤ T₀ = exp(√k): {steps:.4g} against {p['most_steps']:.4g}"
    return outside(told, (text,) if late else ())


def small(run, value, constant, power=0):
    """At most constant·k^power·ε; empty where that is above SPEAKS and needed."""
    p = proof(run)
    bound, opens = constant * p["k"] ** power * p["epsilon"], bound_opens(constant, power)
    why = f"{constant:g}·k^{power}·ε = {bound:.3g} is not small: it is from k = {opens} on"
    return stays(exact("at most", value, bound), bound > SPEAKS and value > 0, why, k=opens)


#: item → what it measures; its constant and power of k for 2 classes, and for k
BALANCE = {
    "2: gap of q̂ inside a cluster": (lambda r: num(r["hat_gap_cluster"]), (5, 0), (5, 1)),
    "3: gap of q̂": (lambda r: num(r["hat_gap"]), (63, 0), (32, 2)),
    "4: margin gap": (lambda r: num(r["margin_max"]) - num(r["margin_min"]), (65, 0), (33, 2)),
    "5: derivatives inside a cluster": (lambda r: num(r["slope_ratio_cluster"]) - 1, (14, 0), (14, 1)),
    "6: derivatives": (lambda r: num(r["slope_ratio"]) - 1, (130, 0), (67, 2)),
}
OTHERS = {
    "8: |λ| of other clusters": (lambda r: num(r["lambda_other"]), (1, 0), (1, 0)),
    "8: |σ| of other points": (lambda r: num(r["sigma_other"]), (2, 0), (2, 0)),
}
MARGINS = {
    "q − (2n/k)σ": (lambda r: num(r["margin_above"]), (2, 0), (2, 0)),
    "(n/2k)σ − q": (lambda r: num(r["margin_below"]), (2, 0), (2, 0)),
}


def items(run, net, where, wanted):
    """Every item along the course; the weakest decides."""
    found, fine = course(run, net, where), net == "fine"
    parts = {
        label: small(run, top(measure(row) for row in found), *(ours if not fine else theirs))
        for label, (measure, ours, theirs) in wanted.items()
    }
    return timed(run, found, all_of(parts, epsilon=proof(run)["epsilon"], rows=len(found)))


def _lemma(claim):
    net = NETS[claim]

    @second(claim, f"(balance|other classes)/{WHERE}", PLACES)
    def multiples(runs, name):
        return items(runs["run"], net, name[2], BALANCE if name[1] == "balance" else OTHERS)

    @second(claim, f"σ from above/{WHERE}", PLACES)
    def above(runs, name):
        run, p = runs["run"], proof(runs["run"])
        found = course(run, net, name[1])
        units = [p["k"] / p["n"] * math.log(1 + max(r["time"] / p["learning_rate"], 1)) for r in found]
        value = top(num(row["sigma_max"]) / unit for row, unit in zip(found, units, strict=True))
        return timed(run, found, exact("at most", value, 2.0))

    @second(claim, f"σ from below/{WHERE}", PLACES)
    def below(runs, name):
        run, p = runs["run"], proof(runs["run"])
        found = course(run, net, name[1])
        short = [
            0.5 * math.log(max(row["time"], p["learning_rate"])) - p["n"] / p["k"] * num(row["sigma_min"])
            for row in found
        ]
        latest, opens = top(row["time"] for row in found), window_opens(net == "fine")
        why = (
            f"tη is at most {latest:.3g}: (k/2n) ln(tη) is not positive; within T₀ it is from k = {opens} on"
        )
        told = exact("at most", top(short), 0.0, latest_eta_t=latest)
        return timed(run, found, stays(told, latest <= 1, why, k=opens))


for lemma in ("FA-LB.7", "FA-LC.10"):
    _lemma(lemma)

#: claim → column and constant
STEPS = {
    "FA-LB.10": ("bias", 1 / 6),
    "FA-LB.11": ("feature_gap", 1 / 6),
    "FA-LB.12": ("noise_gap", 1 / 6),
    "FA-LB.13": ("point_gap", 1 / 3),
    "FA-LB.14": ("hat_error", 1.0),
    "FA-CB.15": ("hat_gap_error", 2.0),
    "FA-LC.17": ("other_output", 1.0),
}


def _step(column, constant):
    def read(runs, name):
        run = runs["run"]
        found = course(run, NETS[name[1]], name[2])
        return timed(run, found, small(run, top(row[column] for row in found), constant))

    return read


for claim, step in STEPS.items():
    second(claim, f"(2-class|k-class)/{WHERE}", PLACES)(_step(*step))


@second("FA-LB.20", f"(2-class|k-class)/{WHERE}", PLACES)
def margins(runs, name):
    return items(runs["run"], NETS[name[1]], name[2], MARGINS)
