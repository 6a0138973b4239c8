"""A package that is also a function: `featscope.experiments` holds modules, and `featscope.experiments()`
lists what there is."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class Door(ModuleType):
    """A module whose call is a call of the front door's function of the same name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `featscope.front.<name>`."""
        function = getattr(import_module("featscope.front"), self.__name__.rpartition(".")[2])
        return function(*arguments, **options)


def callable_package(name: str) -> None:
    """Make a package callable; to be called by the package itself with its ``__name__``."""
    sys.modules[name].__class__ = Door
