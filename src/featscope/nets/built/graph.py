"""ReLU networks as explicit graphs: affine nodes with stored weights, ReLU nodes, and nothing else.

A node is a vector. An affine node may read any earlier nodes, so skip connections are edges like all others.
A parameter is a stored weight or bias; zeros are not stored, so the count is the number of edges and biases
that the network really has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from featscope.core.errors import require
from featscope.core.signs import two_logits

F64 = torch.float64


@dataclass(frozen=True)
class Wire:
    """The output of a node: its index in the graph and its length."""

    index: int
    size: int


@dataclass(frozen=True, eq=False)
class Term:
    """Σ over stored entries: output[rows] += values · source[columns]."""

    source: int
    rows: Tensor
    columns: Tensor
    values: Tensor
    diagonal: bool = False


@dataclass(frozen=True, eq=False)
class Affine:
    """Sum of terms plus a bias, of which only the non-zero entries count."""

    size: int
    terms: tuple[Term, ...]
    bias: Tensor


@dataclass(frozen=True)
class Relu:
    """max(0, ·) of one earlier node."""

    source: int
    size: int


Node = Affine | Relu
Weight = Tensor | float
Enclosures = Mapping[Wire, tuple[Tensor, Tensor]]


@dataclass
class Graph:
    """A network under construction and its evaluation. Node 0 is the input; the last node is the output
    unless ``output`` says otherwise."""

    inputs: int
    nodes: list[Node] = field(default_factory=list)

    @property
    def x(self) -> Wire:
        """The input."""
        return Wire(0, self.inputs)

    @property
    def last(self) -> Wire:
        """The node added last."""
        return Wire(len(self.nodes), self.nodes[-1].size) if self.nodes else self.x

    def _add(self, node: Node) -> Wire:
        self.nodes.append(node)
        return Wire(len(self.nodes), node.size)

    def relu(self, wire: Wire) -> Wire:
        """max(0, wire)."""
        return self._add(Relu(wire.index, wire.size))

    def affine(
        self, *terms: tuple[Wire, Weight], bias: Tensor | float = 0.0, size: int | None = None
    ) -> Wire:
        """Σ W·wire + bias. A matrix weight is stored by its non-zero entries; a number stands for that
        multiple of the identity."""
        stored = []
        for wire, weight in terms:
            if isinstance(weight, Tensor):
                require(
                    weight.shape[-1] == wire.size,
                    "a weight must fit its source",
                    f"{tuple(weight.shape)}, {wire.size}",
                    "transpose it",
                )
                rows, columns = weight.nonzero(as_tuple=True)
                stored.append(Term(wire.index, rows, columns, weight[rows, columns].to(F64)))
                size = weight.shape[0]
            else:
                index = torch.arange(wire.size)
                stored.append(
                    Term(
                        wire.index,
                        index,
                        index,
                        torch.full((wire.size,), float(weight), dtype=F64),
                        diagonal=True,
                    )
                )
                size = wire.size
        require(size is not None, "an affine node without terms needs a size", "size=None", "give size")
        width = size or 0
        shift = bias.to(F64) if isinstance(bias, Tensor) else torch.full((width,), float(bias), dtype=F64)
        require(
            shift.shape == (width,),
            "a bias must have the node's size",
            f"{tuple(shift.shape)}, {width}",
            "reshape it",
        )
        return self._add(Affine(width, tuple(stored), shift))

    def entries(
        self, size: int, *terms: tuple[Wire, Tensor, Tensor, Tensor], bias: Tensor | float = 0.0
    ) -> Wire:
        """An affine node given by its stored entries (rows, columns, values), for matrices too sparse to
        write out."""
        stored = tuple(
            Term(wire.index, rows, columns, values.to(F64)) for wire, rows, columns, values in terms
        )
        shift = bias.to(F64) if isinstance(bias, Tensor) else torch.full((size,), float(bias), dtype=F64)
        return self._add(Affine(size, stored, shift))

    @property
    def parameters(self) -> int:
        """Stored weights and non-zero biases."""
        affine = [node for node in self.nodes if isinstance(node, Affine)]
        weights = sum(term.values.numel() for node in affine for term in node.terms)
        return weights + sum(int(node.bias.count_nonzero()) for node in affine)

    @property
    def neurons(self) -> int:
        """ReLU units."""
        return sum(node.size for node in self.nodes if isinstance(node, Relu))

    @property
    def depth(self) -> int:
        """The largest number of ReLU nodes on a path."""
        depths = [0]
        for node in self.nodes:
            if isinstance(node, Relu):
                depths.append(depths[node.source] + 1)
            else:
                depths.append(max((depths[term.source] for term in node.terms), default=0))
        return depths[-1]

    def values(self, x: Tensor) -> list[Tensor]:
        """All node values at points x (…, inputs)."""
        found = [x.reshape(-1, self.inputs).mT]
        for node in self.nodes:
            if isinstance(node, Relu):
                found.append(found[node.source].relu())
                continue
            total = node.bias.to(x)[:, None].expand(-1, found[0].shape[1])
            for term in node.terms:
                total = total + _apply(term, node.size, found[term.source])
            found.append(total)
        return [value.mT.reshape(*x.shape[:-1], value.shape[0]) for value in found]

    def __call__(self, x: Tensor) -> Tensor:
        """The output at points x (…, inputs)."""
        return self.values(x)[-1]

    def enclose(self, low: Tensor, high: Tensor, known: Enclosures | None = None) -> tuple[Tensor, Tensor]:
        """Bounds of the output over boxes low ≤ x ≤ high (…, inputs), rounded outwards.

        ``known`` gives proven enclosures of inner nodes that interval arithmetic alone cannot see, such as a
        distance on an ℓ2 ball.
        """
        given = {wire.index: bounds for wire, bounds in (known or {}).items()}
        found = [(low, high)]
        for index, node in enumerate(self.nodes, start=1):
            if isinstance(node, Relu):
                bounds = (found[node.source][0].relu(), found[node.source][1].relu())
            else:
                bounds = _enclose_affine(node, found)
            if index in given:
                bounds = (
                    torch.maximum(bounds[0], given[index][0]),
                    torch.minimum(bounds[1], given[index][1]),
                )
            found.append(bounds)
        return found[-1]

    def module(self) -> BuiltNet:
        """The network as a torch module with the same parameters."""
        return BuiltNet(self)

    def classifier(self) -> Callable[[Tensor], Tensor]:
        """The sign of the output as two logits, for attacks."""
        module = self.module()
        return lambda x: two_logits(module(x)[..., 0])


def _apply(term: Term, rows: int, source: Tensor) -> Tensor:
    values = term.values.to(source)
    if term.diagonal:
        return values[:, None] * source
    places = torch.stack([term.rows, term.columns])
    return torch.sparse_coo_tensor(places, values, (rows, source.shape[0]), check_invariants=False) @ source


def _enclose_affine(node: Affine, found: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    low0, _ = found[0]
    shape = (*low0.shape[:-1], node.size)
    low, high = node.bias.to(low0).expand(shape).clone(), node.bias.to(low0).expand(shape).clone()
    size = node.bias.abs().to(low0).expand(shape).clone()
    count = torch.ones(node.size, dtype=low0.dtype)
    for term in node.terms:
        below, above = (bound.index_select(-1, term.columns) for bound in found[term.source])
        down, up = term.values.clamp(min=0), term.values.clamp(max=0)
        low.index_add_(-1, term.rows, below * down + above * up)
        high.index_add_(-1, term.rows, above * down + below * up)
        size.index_add_(-1, term.rows, torch.maximum(below.abs(), above.abs()) * term.values.abs())
        count.index_add_(0, term.rows, torch.full_like(term.values, 2.0))
    # |fl(Σ) − Σ| ≤ γ_n Σ|w x| with γ_n = n·u/(1 − n·u) in any order of summation (Higham 2002, §4.2). Twice
    # that also covers the rounding of the bound itself, and the smallest normal number covers underflow.
    slack = 2 * (count + 4) * torch.finfo(low0.dtype).eps * size + torch.finfo(low0.dtype).tiny * (count + 4)
    return low - slack, high + slack


class BuiltNet(nn.Module):
    """A built network as a module: one parameter vector for the stored weights of each term, one for the
    non-zero biases of each node."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for node in graph.nodes:
            if isinstance(node, Affine):
                self.weights.extend(nn.Parameter(term.values.clone()) for term in node.terms)
                self.biases.append(nn.Parameter(node.bias[node.bias != 0].clone()))

    def forward(self, x: Tensor) -> Tensor:
        """The output at points x (…, inputs)."""
        found, weights, biases = [x], iter(self.weights), iter(self.biases)
        for node in self.graph.nodes:
            if isinstance(node, Relu):
                found.append(found[node.source].relu())
                continue
            where = node.bias.nonzero()[:, 0]
            total = torch.zeros(*x.shape[:-1], node.size, dtype=x.dtype, device=x.device)
            total = total.index_add(-1, where, next(biases).to(x).expand(*x.shape[:-1], -1))
            for term in node.terms:
                total = total.index_add(
                    -1, term.rows, found[term.source].index_select(-1, term.columns) * next(weights).to(x)
                )
            found.append(total)
        return found[-1]


def append(graph: Graph, other: Graph, source: Wire) -> Wire:
    """Copy another network onto a graph with its input read from ``source``; return the copy's output."""
    require(
        other.inputs == source.size,
        "a network must fit its source",
        f"{other.inputs}, {source.size}",
        "give a wire of that size",
    )
    place = {0: source.index}
    for index, node in enumerate(other.nodes, start=1):
        if isinstance(node, Relu):
            wire = graph.relu(Wire(place[node.source], node.size))
        else:
            terms = tuple(Term(place[t.source], t.rows, t.columns, t.values, t.diagonal) for t in node.terms)
            wire = graph._add(Affine(node.size, terms, node.bias))
        place[index] = wire.index
    return graph.last if other.nodes else source
