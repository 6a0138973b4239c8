"""Training of image networks: one step of the one loop is one epoch.

The state is a few flat tensors — weights, buffers, the optimiser's memory, and the best network so far — so
the loop saves and resumes it as any other. Every draw of an epoch comes from streams of the seed and the
epoch's number, so a resumed run gives the rows of an uninterrupted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from featscope.attacks.ascent import ascend, by_autograd, fooling, stepping
from featscope.attacks.copies import Fallen, missed_by_copy
from featscope.attacks.mode import Mode, in_mode
from featscope.attacks.pgd import PGD
from featscope.attacks.threat import Threat
from featscope.core.errors import BadInput, require
from featscope.core.frozen import Value
from featscope.core.linearise import Model
from featscope.core.losses import margin
from featscope.core.settings import setting
from featscope.core.store import Part
from featscope.core.streams import stream
from featscope.dynamics.augment import Augment
from featscope.dynamics.schedules import Ramp, Schedule
from featscope.dynamics.trajectory import Recording, trajectory
from featscope.images.datasets import ImageBatch
from featscope.nets.fold import fold

Method = Literal["standard", "adversarial", "mixed", "trades"]


class AttackSpec(Value):
    """The training attack: PGD of ``steps`` steps of ``step_size`` (None: 2.5·ε/steps) from a random start;
    one step of 1.25·ε is FGSM-RS.
    """

    norm: Literal["Linf", "L2"] = setting("Linf", "norm of the threat")
    eps: float = setting(0.3, "radius of the threat; images are in [0, 1]", letter="ε", ge=0)
    steps: int = setting(7, "steps of PGD", ge=1)
    step_size: float | None = setting(None, "step size of PGD; 2.5·ε/steps if not given", gt=0)
    random_start: bool = setting(True, "start at a random point of the ball")
    objective: Literal["cross-entropy", "margin"] = setting("cross-entropy", "what the attack raises")
    ramp: Ramp = setting(Ramp(), "how the radius grows at the beginning of training")
    batchnorm: Mode = setting("eval", "mode of the network while examples are perturbed")

    def threat(self, eps: float | None = None) -> Threat:
        """Images stay in [0, 1]."""
        return Threat(self.norm, self.eps if eps is None else eps, 3, bounds=(0.0, 1.0))

    def perturb(self, net: nn.Module, x: Tensor, y: Tensor, epoch: float, rng: torch.Generator) -> Tensor:
        """The last point of the ascent, as training uses it: all examples take the same number of steps."""
        threat = self.threat(self.ramp(self.eps, epoch))
        start = threat.sample(x, rng) if self.random_start else torch.zeros_like(x)
        with in_mode(net, self.batchnorm):
            return self.climb(lambda points: _LOSSES[self.objective](net(points), y), x, start, threat)

    @torch.no_grad()
    def climb(self, value: Callable[[Tensor], Tensor], x: Tensor, start: Tensor, threat: Threat) -> Tensor:
        """The last point of ``steps`` steps up a value; a given step size is that of the full radius."""
        if threat.eps == 0:
            return torch.zeros_like(x)
        given = self.step_size
        size = 2.5 * threat.eps / self.steps if given is None else given * threat.eps / self.eps
        return ascend(by_autograd(value), stepping(threat, lambda _: size), start, self.steps, None, x)


#: for each example, by autograd in the precision that training runs in
_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": lambda outputs, y: functional.cross_entropy(outputs, y, reduction="none"),
    "margin": fooling,
}


class TrainingSpec(Value):
    """How an image network is trained.

    `standard`: clean loss; `adversarial`: loss at perturbed examples; `mixed`: (1 − λ)·clean + λ·perturbed
    (CGRO); `trades`: clean + β·KL(clean ‖ perturbed), with the perturbation that raises the KL.
    """

    method: Method = setting("standard", "loss that is minimised: standard, adversarial, mixed or trades")
    epochs: int = setting(10, "passes over the training images", ge=1)
    batch_size: int = setting(128, "images of a step", ge=2)
    schedule: Schedule = setting(Schedule(), "learning rate over the training")
    momentum: float = setting(0.9, "momentum of SGD", ge=0, lt=1)
    weight_decay: float = setting(5e-4, "weight decay of SGD", ge=0)
    attack: AttackSpec = setting(AttackSpec(), "the training attack")
    lam: float = setting(0.9, "weight of the perturbed loss in `mixed`", letter="λ", ge=0, le=1)
    beta: float = setting(6.0, "weight of the KL term in `trades`", letter="β", ge=0)
    augment: Augment = setting(Augment(), "random changes of the training images")
    held_out: float = setting(0.1, "share of the training images that chooses the best epoch", gt=0, lt=1)
    select: Literal["clean", "robust"] = setting(
        "clean", "score that chooses the best epoch: clean or robust accuracy on the held-out images"
    )
    select_steps: int = setting(10, "PGD steps of the robust score", ge=1)
    autocast: bool = setting(False, "compute in bfloat16 where torch allows it")

    def require_a_batch(self, images: int) -> None:
        """Refuse a batch of more images than are left to train on."""
        require(
            self.batch_size <= images,
            "a batch has more images than there are",
            f"batch_size={self.batch_size}, {images} images beside those held out",
            "lower batch_size or held_out",
        )


class Trained(NamedTuple):
    """Weights, buffers and momentum after an epoch; the best weights and buffers so far with their score; the
    last epoch's losses.
    """

    weights: Tensor
    buffers: Tensor
    momentum: Tensor
    best_weights: Tensor
    best_buffers: Tensor
    best: Tensor
    epoch_loss: Tensor


def pack(tensors: Iterator[Tensor]) -> Tensor:
    """Tensors as one flat vector; integers are exact up to 2²⁴."""
    flat = [t.detach().reshape(-1).float() for t in tensors]
    return torch.cat(flat) if flat else torch.zeros(0)


def unpack(flat: Tensor, into: Iterator[Tensor]) -> None:
    """Write a flat vector back."""
    start = 0
    with torch.no_grad():
        for t in into:
            t.copy_(flat[start : start + t.numel()].view_as(t))
            start += t.numel()
    require(
        start == flat.numel(),
        "the state does not fit the network",
        f"{flat.numel()} numbers for {start}",
        "use the same network",
    )


def place(net: nn.Module, weights: Tensor, buffers: Tensor) -> nn.Module:
    """Load weights and buffers into a network."""
    unpack(weights, net.parameters())
    unpack(buffers, net.buffers())
    return net


def split(y: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    """Indices for training and held-out indices, by seed."""
    order = torch.randperm(len(y), generator=stream(seed, "held-out"))
    held = max(1, round(share * len(y)))
    require(
        held < len(y), "nothing is left to train on", f"{len(y)} images, {held} held out", "use more images"
    )
    return order[held:].sort().values, order[:held].sort().values


@torch.no_grad()
def accuracy(net: nn.Module, data: ImageBatch, batch: int = 1000) -> float:
    """Share of images classified correctly, in evaluation mode."""
    with in_mode(net, "eval"):
        hits = [
            margin(net(x), y) > 0
            for x, y in zip(torch.split(data.x, batch), torch.split(data.y, batch), strict=True)
        ]
    return float(torch.cat(hits).double().mean())


@torch.no_grad()
def robust_accuracy(
    net: nn.Module, data: ImageBatch, threat: Threat, steps: int, rng: torch.Generator, batch: int = 500
) -> float:
    """Share of images that stay correct under PGD on cross-entropy that stops at the first success, in
    evaluation mode.

    The search runs on a folded copy, unless a sample of what it leaves shows that the network hides less;
    what it finds is tried on the network itself.
    """
    attack = PGD("cross-entropy", steps, stop_early=True)

    def withstand(searched: nn.Module, draws: torch.Generator) -> Tensor:
        pieces = zip(torch.split(data.x, batch), torch.split(data.y, batch), strict=True)
        return torch.cat([margin(net(x + attack(searched, x, y, threat, draws)), y) > 0 for x, y in pieces])

    def look(searched: Model, chosen: Tensor, name: str) -> Fallen:
        x, y = data.x[chosen], data.y[chosen]
        # The copy and the network from the same starts.
        delta = attack(searched, x, y, threat, rng.clone_state())
        return Fallen(torch.where(margin(net(x + delta), y) > 0, torch.inf, threat.eps).cpu(), delta)

    with in_mode(net, "eval"):
        fast = fold(net, data.x).model
        robust = withstand(fast, rng)
        _, fault = missed_by_copy(net, fast, data.x, data.y, torch.where(robust, torch.inf, 0.0).cpu(), look)
        if fault:
            robust &= withstand(net, rng)
    return float(robust.double().mean())


Watch = Callable[[nn.Module, ImageBatch], dict[str, float | Tensor]]


class Trainer:
    """The epochs of one training: a step and an observation for the loop."""

    def __init__(
        self,
        net: nn.Module,
        train: ImageBatch,
        spec: TrainingSpec,
        seed: int,
        test: ImageBatch | None = None,
        robust_test: int = 0,
        watch: Watch | None = None,
    ) -> None:
        kept, held = split(train.y, spec.held_out, seed)
        spec.require_a_batch(len(kept))
        self.net, self.spec, self.seed = net, spec, seed
        self.train = ImageBatch(train.x[kept], train.y[kept])
        self.held = ImageBatch(train.x[held], train.y[held])
        self.test, self.robust_test, self.watch = test, robust_test, watch
        self.keep: Part | None = None

    def start(self) -> Trained:
        """The state before the first epoch."""
        weights, buffers = pack(self.net.parameters()), pack(self.net.buffers())
        nothing = torch.full((), -1.0)
        return Trained(
            weights,
            buffers,
            torch.zeros_like(weights),
            weights.clone(),
            buffers.clone(),
            nothing,
            torch.zeros(()),
        )

    def step(self, state: Trained, t: int) -> Trained:
        """One epoch, then the held-out score."""
        net, spec = place(self.net, state.weights, state.buffers), self.spec
        optimiser = self._optimiser(state.momentum)
        clock, total, seen = time.perf_counter(), 0.0, 0
        order = torch.randperm(len(self.train.y), generator=stream(self.seed, "order", t))
        batches = [part for part in torch.split(order, spec.batch_size) if len(part) > 1]
        for i, chosen in enumerate(batches):
            for group in optimiser.param_groups:
                group["lr"] = spec.schedule((t + (i + 0.5) / len(batches)) / spec.epochs)
            loss = self._update(net, optimiser, chosen.to(self.train.x.device), t, i, t + i / len(batches))
            total, seen = total + loss * len(chosen), seen + len(chosen)
        if self.keep is not None:
            # Speed is for the person who waits, not for the rows, which must not depend on the clock.
            self.keep.report(
                t + 1, spec.epochs, {"loss": total / seen, "images/s": seen / (time.perf_counter() - clock)}
            )
        weights, buffers = pack(net.parameters()), pack(net.buffers())
        score = torch.tensor(self._score(t))
        better = bool(score > state.best)
        best = (
            (weights.clone(), buffers.clone(), score)
            if better
            else (state.best_weights, state.best_buffers, state.best)
        )
        return Trained(weights, buffers, self._memory(optimiser), *best, torch.tensor(total / seen))

    def _optimiser(self, memory: Tensor) -> torch.optim.SGD:
        spec = self.spec
        optimiser = torch.optim.SGD(
            self.net.parameters(), spec.schedule.peak, spec.momentum, weight_decay=spec.weight_decay
        )
        if spec.momentum:
            for parameter in self.net.parameters():
                optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            unpack(memory, (optimiser.state[p]["momentum_buffer"] for p in self.net.parameters()))
        return optimiser

    def _memory(self, optimiser: torch.optim.SGD) -> Tensor:
        return pack(
            optimiser.state[p].get("momentum_buffer", torch.zeros_like(p)) for p in self.net.parameters()
        )

    def _update(
        self, net: nn.Module, optimiser: torch.optim.SGD, chosen: Tensor, t: int, i: int, epoch: float
    ) -> float:
        x, y = (
            self.spec.augment(self.train.x[chosen], stream(self.seed, "augment", t, i)),
            self.train.y[chosen],
        )
        net.train()
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=self.spec.autocast):
            loss = self.loss(net, x, y, epoch, stream(self.seed, "attack", t, i))
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        optimiser.step()
        return float(loss.detach())

    def loss(self, net: nn.Module, x: Tensor, y: Tensor, epoch: float, rng: torch.Generator) -> Tensor:
        """The training objective on one batch."""
        spec = self.spec
        if spec.method == "standard":
            return functional.cross_entropy(net(x), y)
        if spec.method == "trades":
            return self._trades(net, x, y, epoch, rng)
        moved = x + spec.attack.perturb(net, x, y, epoch, rng)
        if spec.method == "adversarial":
            return functional.cross_entropy(net(moved), y)
        return (1 - spec.lam) * functional.cross_entropy(net(x), y) + spec.lam * functional.cross_entropy(
            net(moved), y
        )

    def _trades(self, net: nn.Module, x: Tensor, y: Tensor, epoch: float, rng: torch.Generator) -> Tensor:
        attack = self.spec.attack
        threat = attack.threat(attack.ramp(attack.eps, epoch))
        # At the example itself the KL's gradient is zero, hence the published method's small random start.
        start = threat.project(1e-3 * torch.randn(x.shape, generator=rng).to(x), x)
        with in_mode(net, attack.batchnorm):
            with torch.no_grad():
                clean = net(x).softmax(-1)
            delta = attack.climb(lambda points: _divergence(net(points), clean), x, start, threat)
        outputs = net(x)
        pull = functional.kl_div(net(x + delta).log_softmax(-1), outputs.softmax(-1), reduction="batchmean")
        return functional.cross_entropy(outputs, y) + self.spec.beta * pull

    def _score(self, t: int) -> float:
        if self.spec.select == "clean":
            return accuracy(self.net, self.held)
        rng = stream(self.seed, "select", t)
        return robust_accuracy(self.net, self.held, self.spec.attack.threat(), self.spec.select_steps, rng)

    def observe(self, state: Trained, t: int) -> dict[str, float | Tensor]:
        """Loss of the last epoch, clean and robust accuracies, and what ``watch`` adds; a pure function of
        the state.
        """
        net = place(self.net, state.weights, state.buffers)
        row: dict[str, float | Tensor] = {"loss": float(state.epoch_loss), "held_out": float(state.best)}
        row["clean_held_out"] = accuracy(net, self.held)
        if self.test is not None:
            row["clean_test"] = accuracy(net, self.test)
            row["clean_train"] = accuracy(net, self.some(self.train, len(self.test.y)))
        if self.test is not None and self.robust_test:
            threat, steps = self.spec.attack.threat(), self.spec.select_steps
            for name, data in (("train", self.train), ("test", self.test)):
                part = self.some(data, self.robust_test)
                row[f"robust_{name}"] = robust_accuracy(
                    net, part, threat, steps, stream(self.seed, "observe", name)
                )
        if self.watch is not None:
            row.update(self.watch(net, self.train))
        return row

    @staticmethod
    def some(data: ImageBatch, n: int) -> ImageBatch:
        """``n`` images at even distances.

        A set is in the order of its file, whose beginning need not be like its end (MNIST's test file is
        not).
        """
        at = ((torch.arange(min(n, len(data.y))) + 0.5) * len(data.y) / max(min(n, len(data.y)), 1)).long()
        return ImageBatch(data.x[at], data.y[at])

    def run(
        self, keep: Part | None = None, every: int = 1, seen: Callable[[Trained, int], None] | None = None
    ) -> Recording[Trained]:
        """All epochs through the one loop; with ``keep`` they are saved and resumed; ``seen`` gets the state
        of each recorded epoch.
        """
        self.keep = keep

        def observe(state: Trained, t: int) -> dict[str, float | Tensor]:
            if seen is not None:
                seen(state, t)
            return self.observe(state, t)

        done = trajectory(self.step, self.start(), self.spec.epochs, observe, every, keep=keep)
        return done.healthy(f"seed {self.seed}", "lower the schedule's peak")

    def last(self, state: Trained) -> nn.Module:
        """The network after the last epoch."""
        return place(self.net, state.weights, state.buffers).eval()

    def best(self, state: Trained) -> nn.Module:
        """The network of the epoch with the best held-out score (not chosen on the test set)."""
        if float(state.best) < 0:
            raise BadInput("no epoch has been trained", "best", "run at least one epoch")
        return place(self.net, state.best_weights, state.best_buffers).eval()


def _divergence(outputs: Tensor, clean: Tensor) -> Tensor:
    """KL(clean ‖ outputs) for each example."""
    return functional.kl_div(outputs.log_softmax(-1), clean, reduction="none").sum(-1)
