"""Columns by name and meaning: what an experiment writes is declared beside it, and is what judges and
figures name.

    class Dynamics(Columns):
        '''One row for each seed and recorded step.'''

        u = column("max_r ⟨w_ir, u_i⟩ of each class i")
        robust = column("accuracy over the full ball", "robust_full-ball")

`Dynamics.u` is the text "u", so `rows[Dynamics.u]` and `{Dynamics.u: 1.0}` are what they seem.
"""

from __future__ import annotations


class Column(str):
    """A column's name that also knows what the column holds."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Column:
        """The name as text, with its meaning."""
        made = super().__new__(cls, name)
        made.meaning = meaning
        return made

    def __reduce__(self) -> tuple[type[Column], tuple[str, str]]:
        """What a copy is made of: evidence may have columns as keys."""
        return Column, (str(self), self.meaning)


def column(meaning: str, name: str = "") -> Column:
    """Declare a column; its name is the attribute's unless it cannot be one."""
    return Column(name, meaning)


class Columns:
    """The columns of one part of a run. Subclasses declare them with :func:`column`."""

    def __init_subclass__(cls) -> None:
        for attribute, value in list(vars(cls).items()):
            if isinstance(value, Column) and not value:
                setattr(cls, attribute, Column(attribute, value.meaning))

    @classmethod
    def all(cls) -> dict[str, Column]:
        """All columns by name, those of parent classes first."""
        found: dict[str, Column] = {}
        for parent in reversed(cls.__mro__):
            found |= {str(value): value for value in vars(parent).values() if isinstance(value, Column)}
        return found
