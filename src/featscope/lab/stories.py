"""Six guided stories: a few sentences, where the sliders stand, and a question to try."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from featscope.lab.controls import LabModel, defaults


@dataclass(frozen=True)
class Story:
    """A story of one model; ``settings`` are those that differ from the defaults."""

    name: str
    model: LabModel
    title: str
    text: tuple[str, ...]
    question: str
    settings: dict[str, Any]

    def full_settings(self) -> dict[str, Any]:
        """All settings of the model at this story."""
        return defaults(self.model) | self.settings


STORIES: tuple[Story, ...] = (
    Story(
        "weak-wins",
        "at",
        "Why the non-robust feature wins",
        (
            "Standard training lets each feature grow by itself, A ← A + c·A^(q−1): slowly at first, then "
            "all at once. "
            "The rate c is Σα^q over the robust patches and Σβ^q over the others.",
            "Here one strong patch gives 1·2³ = 8 and fifteen weak ones give 15·1³ = 15. So B explodes "
            "first, the "
            "loss is spent, and A stays where it began. The network of weak features that results is "
            "turned at "
            "ε = ½, where the attack has 1.2.",
        ),
        "Raise α/β. Does the robust feature take over where the map says, at α/β = (|J_NR|/|J_R|)^(1/q) = "
        "2.47? "
        "Then stay close to the line and change the seed: who decides there?",
        {"training": "standard", "ratio": 2, "robust": 1, "weak": 15, "d": 1_000_000, "seed": 3},
    ),
    Story(
        "switch",
        "at",
        "When adversarial training switches",
        (
            "Adversarial training begins like the standard one: B leads. But the attack's step grows with "
            "ΣB^q. Once that "
            "reaches about 1/η̃ the attack takes all of β away, and B stops at the dotted line (phase I "
            "ends).",
            "The robust feature loses only ε of its α. It goes on growing and arrives at ϱ/α: the switch "
            "to phase II.",
        ),
        "Lower ε below β = 1, so that the attack can no longer cancel the weak feature. Does B still stop? "
        "And what does a larger η̃ change: the height at which B stops, or the end?",
        {
            "training": "adversarial",
            "clip": "features-only",
            "eps": 1.2,
            "ratio": 2,
            "d": 10_000,
            "step": 10,
            "seed": 1,
        },
    ),
    Story(
        "averaging",
        "fa",
        "Why averaging costs a factor √(k/2) of radius",
        (
            "Ten clusters, two labels. Every neuron of a label is pulled equally by all five clusters of "
            "it, so all λ "
            "rise together: the heat map shows one block a label, each cosine near 1/√5.",
            "To turn a point, the attacker may then lower five features a little and raise the five others "
            "a little: "
            "√(d/k) is enough. Were each cluster kept apart, it would take √(d/2), which is √(k/2) = 2.2 "
            "times as far.",
        ),
        "Drag k from 10 down to 2. Does the radius follow √(d/k)? At k = 2 there is nothing to average. "
        "Then raise σ_w·d until neurons miss clusters: what happens to the least λ?",
        {"k": 10, "plus": 5, "groups": 2, "d": 3072, "n": 1000},
    ),
    Story(
        "finer-labels",
        "fa",
        "What finer labels give",
        (
            "The same ten clusters, but training is told all ten labels. Each neuron learns its own "
            "cluster (the "
            "diagonal of the heat map), and the decision between + and − is read off afterwards.",
            "The radius is now √(d/2), although the question that is asked of the network is the same.",
        ),
        "Move g from 10 to 2 and watch the radius: it depends on the largest group of each sign only. "
        "Which g gives half of the gain? And does it help to tell the labels if the features have cosine "
        "0.5?",
        {"k": 10, "plus": 5, "groups": 10, "d": 3072, "n": 1000},
    ),
    Story(
        "three-stages",
        "cgro",
        "Three stages of robust overfitting",
        (
            "First the signal: α³U passes 1 within a few steps (T₀), and clean points are right. Then a "
            "long plateau: on "
            "attacked points, which keep (1−γ) of the signal, nothing is learned. Meanwhile the noise of "
            "each training "
            "point grows like a power method, and at T₁ it is memorised.",
            "In the end clean test points and attacked training points are right, attacked test points are "
            "a coin flip.",
        ),
        "Set λ = 0: what is missing? Set λ = 1: what else? And how does T₁ move when N doubles?",
        {"n": 50, "tradeoff": 0.9, "gap": 0.00451, "d": 1024, "steps": 15_000},
    ),
    Story(
        "too-many",
        "cgro",
        "When N is too large",
        (
            "Memorising costs time in proportion to N, because each point pulls with 1/N. The rest (1−γ)α "
            "of the signal "
            "is the same in all attacked points, so it is learned at a rate that does not fall with N.",
            "Beyond N* the rest of the signal wins, and robust overfitting stops: attacked test points are "
            "right. "
            "The theorem allows any polynomial N; here N* is 17, and N is 80.",
        ),
        "Lower N below N* and watch the attacked test accuracy fall to a half. Then lower 1−γ instead: N* "
        "moves like "
        "(1−γ)⁻³. Where is N = poly(d) for the paper's 1−γ?",
        {"n": 80, "tradeoff": 0.9, "gap": 0.0442, "d": 512, "rate": 2.23, "steps": 40_000},
    ),
)


def as_json() -> list[dict[str, Any]]:
    """All stories, for the page."""
    return [asdict(story) for story in STORIES]
