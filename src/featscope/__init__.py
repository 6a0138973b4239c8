"""featscope: the executable companion to a line of theory on adversarial examples and adversarial training.

    import featscope as fs

    run = fs.run("patch-fig3", profile="quick", out="runs", eps=0.5, d=200, seeds=5)   # finished, or found
    fs.check("AT-P3.2", profile="quick", out="runs")                                   # its readings with
    verdicts
    fs.robustness(model, x, y, eps=8 / 255)                                            # any torch classifier
    fs.probe(model, x, y, eps=8 / 255, out="probe")                                    # and why

Every name is imported when it is first used: `import featscope` itself loads neither torch nor anything else
heavy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

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
    "probe": "featscope.probe.run",
    "robustness": "featscope.front",
    "robustness_curve": "featscope.front",
    "run": "featscope.front",
    "stream": "featscope.core.streams",
    "sweep": "featscope.sweeps.asked",
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
    "probe",
    "robustness",
    "robustness_curve",
    "run",
    "stream",
    "sweep",
]

#: what type checkers take for true; `typing` itself would be most of the cost of this import
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from featscope.attacks.threat import Threat
    from featscope.core.errors import BadInput
    from featscope.core.streams import stream
    from featscope.front import check, claims, experiments, robustness, robustness_curve, run
    from featscope.laws.clusters import ClusterLaw
    from featscope.laws.patches import PatchLaw
    from featscope.laws.signal import SignalLaw
    from featscope.probe.run import probe
    from featscope.sweeps.asked import sweep
else:

    def __getattr__(name: str) -> object:
        if name not in _DOORS:
            raise AttributeError(f"module 'featscope' has no attribute {name!r}")
        return _behind(name)


def _behind(name: str) -> Any:
    return getattr(import_module(_DOORS[name]), name)


class _Door(ModuleType):
    """A package that is also a function: `featscope.claims` holds modules, `featscope.claims()` lists what
    there is. To who calls it or asks for its help it is the function."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)

    @property
    def _function(self) -> Any:
        return _behind(self.__name__.rpartition(".")[2])

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return str(self._function.__doc__)

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(self._function)


class _House(ModuleType):
    """This package: an inner package that is named like a public function becomes that function's door when
    the import system puts it here, so neither knows the other."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _DOORS and isinstance(value, ModuleType):
            value.__class__ = _Door
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _House


def __dir__() -> list[str]:
    return sorted(__all__)
