"""featscope: the executable companion to a line of theory on adversarial examples and adversarial training.

    import featscope as fs

    run = fs.run("patch-fig3", profile="quick", out="runs", eps=0.5, d=200, seeds=5)   # finished, or found
    fs.check("AT-P3.2", profile="quick", out="runs")                                   # its readings with
    verdicts
    fs.robustness(model, x, y, eps=8 / 255)                                            # any torch classifier

Every name is imported when it is first used: `import featscope` itself loads neither torch nor anything else
heavy.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

#: public name → the module that defines it
_DOORS = {
    "BadInput": "featscope.core.errors",
    "ClusterLaw": "featscope.laws.clusters",
    "PatchLaw": "featscope.laws.patches",
    "SignalLaw": "featscope.laws.signal",
    "Threat": "featscope.attacks.threat",
    "check": "featscope.front",
    "claims": "featscope.front",
    "experiments": "featscope.front",
    "robustness": "featscope.front",
    "robustness_curve": "featscope.front",
    "run": "featscope.front",
    "stream": "featscope.core.streams",
}

__all__ = [
    "BadInput",
    "ClusterLaw",
    "PatchLaw",
    "SignalLaw",
    "Threat",
    "__version__",
    "check",
    "claims",
    "experiments",
    "robustness",
    "robustness_curve",
    "run",
    "stream",
]

#: what type checkers take for true; `typing` itself would be most of the cost of this import
TYPE_CHECKING = False
if TYPE_CHECKING:
    from featscope.attacks.threat import Threat
    from featscope.core.errors import BadInput
    from featscope.core.streams import stream
    from featscope.front import check, claims, experiments, robustness, robustness_curve, run
    from featscope.laws.clusters import ClusterLaw
    from featscope.laws.patches import PatchLaw
    from featscope.laws.signal import SignalLaw
else:

    def __getattr__(name: str) -> object:
        if name not in _DOORS:
            raise AttributeError(f"module 'featscope' has no attribute {name!r}")
        return getattr(import_module(_DOORS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
