"""PH-patch and PH-sensitivity: where AT's phases change, against the lines that its lemmas draw."""

from __future__ import annotations

from featscope.claims.claim import Claim, Finding, Kind, Need, Runs
from featscope.claims.judging import one_run, reaches
from featscope.core.rules import PHASE_EDGE, SMALL
from featscope.papers.at.patch_sensitivity import CHANGES, Changes
from featscope.papers.at.phase_patch import DESCENT, FULL_BALL, RADIUS_STEP, RADIUS_STRENGTH, standard_panel
from featscope.sweeps.phases import edge_within

PHASE, SENSITIVITY = Need("phase-patch"), Need("patch-sensitivity")


def switches(runs: Runs) -> Finding:
    """The least share, over all changes, of the seeds and classes in which the robust feature takes over."""
    shares: dict[tuple[str, float], list[bool]] = {}
    for row in runs["run"].part(CHANGES).to_dicts():
        found = row.get(Changes.switch) is not None
        shares.setdefault((row[Changes.setting], row[Changes.at]), []).append(found)
    least = min((sum(each) / len(each) for each in shares.values()), default=float("nan"))
    missing = [f"{letter} = {at:g}" for (letter, at), each in shares.items() if not all(each)]
    return reaches(least, 1 - SMALL, not_everywhere=missing, changes=len(shares))


CLAIMS = (
    Claim(
        "PH-patch",
        "at",
        "beyond AT: phase diagrams of §2 to §5",
        "The feature that wins changes where the lemmas' lines are: standard training at Σα^q = Σβ^q, "
        "adversarial training at ε = β for a large step of the attack; and robustness over the full ball "
        "ends at "
        "|J_R|(α−ε)^q = Pε^q.",
        (),
        (
            *(
                one_run(
                    f"standard q={q}",
                    f"recursion at large d, q = {q}: edge of the robust feature's phase over (α/β, "
                    f"|J_NR|/|J_R|)",
                    PHASE,
                    edge_within(standard_panel(q), PHASE_EDGE),
                )
                for q in (3, 4, 5)
            ),
            one_run(
                "standard by descent",
                "the same at q = 3 by full descent on noisy samples at small d",
                PHASE,
                edge_within(DESCENT, PHASE_EDGE),
            ),
            one_run(
                "attack: radius and step",
                "Lemma D.18's recursion on features, Figure 3's law at large d: the least ε/β at which the "
                "robust "
                "feature wins, for η̃ > β²/ϱ, against ε = β",
                PHASE,
                edge_within(RADIUS_STEP, PHASE_EDGE),
            ),
            one_run(
                "attack: radius and strength",
                "the same over (α/β, ε/β) with η̃ = √d",
                PHASE,
                edge_within(RADIUS_STRENGTH, PHASE_EDGE),
            ),
            one_run(
                "full ball",
                "the same trainings: the α/β from which on at least half of the classes withstand the "
                "explicit "
                "perturbation of radius ε on every patch, against |J_R|(α−ε)^q = Pε^q",
                PHASE,
                edge_within(FULL_BALL, PHASE_EDGE),
            ),
        ),
        named_kind=Kind.QUESTION,
    ),
    Claim(
        "PH-sensitivity",
        "at",
        "beyond AT: hyper-parameters of Figure 3",
        "Adversarial training switches to the robust feature in every class when q, ϱ, m, σ0, η̃ or the "
        "size of "
        "a batch is changed alone.",
        (),
        (
            one_run(
                "one at a time",
                "Figure 3's adversarial training, patch clip, in batches of 5 but where their size is "
                "changed; at "
                "smaller sizes but for the profile paper",
                SENSITIVITY,
                switches,
            ),
        ),
        named_kind=Kind.QUESTION,
    ),
)
