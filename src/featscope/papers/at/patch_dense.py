"""`patch-dense`: both trainings at a law that meets Assumption 2.3, by full descent and with noise.

Figure 3's law is neither strong nor dense enough, and no computer stores a d at which all of B.3 is met. Here
everything is met that a stored d can meet: α = 12β, ε = 1.1β, one robust patch of 20 001 (so that α ≥ 10ε and
Σ_NR β³ ≥ 10 Σ_R α³), d = 40 ≥ 10·2k, σ_n = 1/√d, ϱ = (log d)^−2 and η̃ = √d. Not met is σ0 = 1/√d: neurons
would start 53 times beyond ϱ, with outputs in the thousands. With σ0 = .001 they start in the polynomial part
of the activation, as all proofs do. η = 1/P: the outputs are sums over P patches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from featscope.core.settings import setting
from featscope.core.store import Folder, Json
from featscope.experiments.spec import Experiment
from featscope.laws.amplitudes import Constant
from featscope.laws.patches import PatchLaw, PatchSetting
from featscope.nets.patch_cnn import PatchNetSpec
from featscope.papers.at.choices import choices
from featscope.papers.at.fig3_columns import DYNAMICS, RADII, Dynamics, Radii
from featscope.papers.at.fig3_settings import AdversarialTraining, Measurement, Training
from featscope.papers.at.fig3_summary import summarise
from featscope.papers.at.overview import FIG3_HIGHLIGHTS
from featscope.papers.at.patch_fig3 import Data, PatchFig3, measure_radii, size, train

D, P, EPOCHS = 40, 20_001, 200


class PatchDense(PatchFig3, registered="patch-dense"):
    """Figure 3's settings, moved inside Assumption 2.3."""

    profiles: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "quick": {
            "seeds": [0],
            "law.patches": 1001,
            "train_size": 10,
            "test_size": 10,
            "standard.epochs": 40,
            "standard.learning_rate": 1e-3,
            "adversarial.epochs": 40,
            "adversarial.learning_rate": 1e-3,
            "evaluation.points": 10,
            "evaluation.curve_points": 10,
        },
        "paper": {},
    }
    seeds: tuple[int, ...] = setting((0, 1, 2), "the seeds, one independent repetition each")
    law: PatchLaw = setting(
        PatchLaw(d=D, patches=P, alpha=Constant(value=12.0), sigma_n=D**-0.5), "the law of the data"
    )
    net: PatchNetSpec = setting(PatchNetSpec(width=10, rho=math.log(D) ** -2, sigma_0=0.001), "the network")
    eps: float = setting(1.1, "radius of the threat, in training and in evaluation", letter="ε", gt=0)
    train_size: int = setting(20, "training points", letter="N", ge=1)
    test_size: int = setting(25, "fresh points on which accuracy is measured", ge=1)
    standard: Training = setting(
        Training(learning_rate=1 / P, epochs=EPOCHS, batch_size=None), "gradient descent on clean points"
    )
    adversarial: AdversarialTraining = setting(
        AdversarialTraining(learning_rate=1 / P, epochs=EPOCHS, batch_size=None, step_size=D**0.5),
        "gradient descent on perturbed points",
    )
    evaluation: Measurement = setting(
        Measurement(steps=10, points=25, curve_points=25, every=EPOCHS, radii=()),
        "how robustness is measured",
    )
    #: a point has 800 000 coordinates
    dtype: Literal["float32", "float64"] = "float32"


def run(spec: PatchDense, folder: Folder) -> Json:
    """Train each arm on all seeds at once, then measure; points are too large to be kept."""
    data = Data(spec)
    law = spec.law.check(PatchSetting(spec.eps, data.test_of(0, spec.test_size), norm=spec.norm))
    folder.conditions([*law, *choices(spec.law, spec.net, spec.adversarial.step_size)])
    summary: Json = {}
    for arm in spec.arms:
        trained = train(spec, folder, data, arm)
        radii = measure_radii(spec, folder, data, arm, trained, evidence=False)
        summary[arm] = summarise(trained, radii, spec.eps, arm)
    return summary


EXPERIMENTS = (
    Experiment(
        name="patch-dense",
        paper="at",
        shows="AT Theorems 4.3 and 4.4 by full descent at a law that meets Assumption 2.3 and all of B.3 but "
        "σ0",
        spec=PatchDense,
        run=run,
        takes={"quick": "10 s", "cpu": "10 min", "paper": "10 min"},
        highlights=FIG3_HIGHLIGHTS,
        size=size,
        columns={DYNAMICS: Dynamics, RADII: Radii},
        by_name=True,
    ),
)
