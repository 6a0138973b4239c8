"""The sliders of the lab as data: the paper's letter, what it means, its range, and whose assumption it
belongs to.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Scale = Literal["linear", "log", "whole", "log-whole"]
LabModel = Literal["at", "fa", "cgro"]


@dataclass(frozen=True)
class Slider:
    """A number that is dragged; ``assumptions`` are the names of the conditions whose region is marked on it.

    ``real`` says that only the full descent of "run it for real", and the command, know it.
    """

    key: str
    letter: str
    meaning: str
    low: float
    high: float
    scale: Scale
    default: float
    assumptions: tuple[str, ...] = ()
    real: bool = False
    kind: Literal["slider"] = "slider"


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    key: str
    letter: str
    meaning: str
    options: dict[str, str]
    default: str
    real: bool = False
    kind: Literal["choice"] = "choice"
    assumptions: tuple[str, ...] = field(default=())


Control = Slider | Choice

AT: tuple[Control, ...] = (
    Choice(
        "training",
        "",
        "training",
        {"standard": "standard (§2.4)", "adversarial": "adversarial (§2.5)"},
        "standard",
    ),
    Choice(
        "clip",
        "Clip",
        "what the training attack may change",
        {
            "features-only": "features, clipped to ±ε (Lemma 5.2)",
            "two-sided": "features and initial directions, to ±ε",
            "as-printed": "the same from one side (Lemma D.17)",
        },
        "features-only",
    ),
    Slider(
        "eps",
        "ε",
        "radius of the attack; β is 1",
        0.05,
        3,
        "linear",
        1.2,
        ("B.3 α ≫ ε", "B.3 ε > β", "§2.5 ε = Θ(σ_n√d)", "halfway"),
    ),
    Slider(
        "ratio",
        "α/β",
        "strength of the robust feature over the non-robust one",
        1,
        12,
        "linear",
        2,
        ("A2.3 strong", "A2.3 dense", "B.3 α ≫ ε", "halfway"),
    ),
    Slider("robust", "|J_R|", "patches with the robust feature", 1, 8, "whole", 1, ("A2.3 dense",)),
    Slider("weak", "|J_NR|", "patches with the non-robust feature", 1, 60, "whole", 15, ("A2.3 dense",)),
    Slider("step", "η̃", "step size of the training attack", 1, 1e9, "log", 10, ("B.3 step",)),
    Slider("k", "k", "classes", 2, 4, "whole", 2, ("B.3 room",)),
    Slider(
        "d",
        "d",
        "dimension of a patch; first weights have σ₀ = 1/√d",
        100,
        1e9,
        "log-whole",
        1e4,
        ("B.3 room", "B.3 noise", "B.3 step"),
    ),
    Slider("q", "q", "power of the activation below its threshold ϱ = 1", 3, 5, "whole", 3),
    Slider("seed", "", "seed of the first weights", 0, 99, "whole", 0),
    Slider(
        "sigma_n",
        "σ_n",
        "noise in each coordinate of a patch",
        0,
        0.3,
        "linear",
        0,
        ("B.3 noise",),
        real=True,
    ),
    Slider(
        "batch",
        "",
        "batch size, of 100 points; 100 is the full batch of §2.4. Without noise there is one point a "
        "class, and no batch",
        1,
        100,
        "whole",
        100,
        real=True,
    ),
    Slider("rate", "η", "learning rate; the recursion is its limit η → 0", 0.01, 10, "log", 0.1, real=True),
    Slider("steps", "T", "steps of full descent", 50, 5000, "log-whole", 1500, real=True),
)

FA: tuple[Control, ...] = (
    Slider("k", "k", "clusters", 2, 12, "whole", 10, ("A4.3.d", "A4.3.n", "A4.3.m")),
    Slider("plus", "|J₊|", "clusters of label +1", 1, 11, "whole", 5, ("A3.3",)),
    Slider(
        "groups",
        "g",
        "label groups that training is told: 2 is the 2-class network (m = 5), k the k-class network (h = 1)",
        2,
        12,
        "whole",
        2,
    ),
    Slider("d", "d", "dimension", 200, 1e9, "log-whole", 3072, ("A4.3.d", "A4.3.n-top", "A4.3.eta")),
    Slider("n", "n", "training points", 20, 1e7, "log-whole", 1000, ("A4.3.n", "A4.3.n-top")),
    Slider("init", "σ_w·d", "scale of the first weights, times d", 1e-4, 100, "log", 0.03072, ("A4.3.w",)),
    Slider("cosine", "cos", "cosine between two features", 0, 0.9, "linear", 0, ("A3.2",)),
    Slider("rate", "η·d", "learning rate, times d", 0.03, 30, "log", 3.072, ("A4.3.eta", "A4.3.w")),
    Slider("steps", "T", "steps of descent", 10, 200, "whole", 100),
    Slider("seed", "", "seed of points and first weights", 0, 99, "whole", 0),
)

CGRO: tuple[Control, ...] = (
    Slider("n", "N", "training points", 2, 2000, "log-whole", 50, ("samples", "room")),
    Slider("tradeoff", "λ", "weight of the attacked loss in (O)", 0, 1, "linear", 0.9, ("step", "tradeoff")),
    Slider(
        "gap",
        "1−γ",
        "what the attack (A) leaves of the signal; δ = γα",
        1e-6,
        0.5,
        "log",
        0.00451,
        ("samples", "radius-same", "radius-apart"),
    ),
    Slider(
        "d",
        "d",
        "dimension of a patch; α = d^.249, σ = d^−.509, σ₀ = 1/√d",
        64,
        1e9,
        "log-whole",
        1024,
        ("samples", "start", "noise", "room"),
    ),
    Slider("rate", "η·α²", "learning rate, times α²", 0.01, 30, "log", 3.156, ("step",)),
    Slider("steps", "T", "steps of descent", 100, 1e12, "log-whole", 15000),
    Slider("seed", "", "seed of points and first weights", 0, 99, "whole", 0),
)

CONTROLS: dict[LabModel, tuple[Control, ...]] = {"at": AT, "fa": FA, "cgro": CGRO}


def defaults(model: LabModel) -> dict[str, Any]:
    """The settings of a model before anything is moved."""
    return {control.key: control.default for control in CONTROLS[model]}


def as_json() -> dict[str, list[dict[str, Any]]]:
    """All controls, for the page."""
    return {model: [asdict(control) for control in controls] for model, controls in CONTROLS.items()}
