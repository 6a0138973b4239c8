"""What the experiments on networks built by hand share: the columns and the row of one network."""

from __future__ import annotations

from typing import Any

from featscope.core.columns import Columns, column
from featscope.nets.built.robust import Robust

Row = dict[str, Any]


class BuiltNetwork(Columns):
    """One network that memorises balls, built on one sample."""

    D = column("dimension")
    n = column("training points N")
    kind = column("how the indicators are built: Linf, L2-shared or L2-each")
    levels = column("levels of the square networks; 0 in ℓ∞")
    parameters = column("stored weights and biases")
    slack = column("certified lower bound of y_i·f over the training balls, the least over i")


class SampledNetwork(BuiltNetwork):
    """A network of one seed whose count is compared with its formula."""

    seed = column("seed of the sample")
    formula = column("parameters by the formula")


def network_row(built: Robust) -> Row:
    """The columns of :class:`BuiltNetwork`."""
    n, dim = built.x.shape
    return {
        BuiltNetwork.D: dim,
        BuiltNetwork.n: n,
        BuiltNetwork.kind: built.kind,
        BuiltNetwork.levels: built.local.levels,
        BuiltNetwork.parameters: built.graph.parameters,
        BuiltNetwork.slack: float(built.certificate().min()),
    }


def counts_of(rows: list[Row], seed: int) -> dict[str, int]:
    """Parameters of one seed's networks by kind, D and N, for summaries."""
    c = SampledNetwork
    mine = [row for row in rows if row[c.seed] == seed]
    return {f"{row[c.kind]} D={row[c.D]} N={row[c.n]}": row[c.parameters] for row in mine}


def summary_of(rows: list[Row], seed: int) -> dict[str, Any]:
    """What every summary of such networks says."""
    c = SampledNetwork
    return {
        "cases": len(rows),
        "least_slack": min(row[c.slack] for row in rows),
        "formula_mismatches": sum(row[c.parameters] != row[c.formula] for row in rows),
        "parameters": counts_of(rows, seed),
    }
