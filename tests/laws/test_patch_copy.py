"""Training on a compact copy of the patch law is training on the law: exactly for given data, in distribution
for drawn data."""

import pytest
import torch
from scipy import stats as sps

from featscope.core.errors import BadInput
from featscope.core.streams import stream
from featscope.dynamics.patch_descent import Weights, training_step
from featscope.dynamics.patch_observables import feature_correlations, own_correlations
from featscope.laws.compact import rotate
from featscope.laws.patch_copy import compact_patches
from featscope.laws.patches import PatchBatch, PatchLaw
from featscope.nets.patch_cnn import PatchNetSpec

SPEC = PatchNetSpec(width=3, sigma_0=0.1)
N = 4
LAW = PatchLaw(k=2, d=60, patches=5, robust_patches=1, sigma_n=0.12)


def train(law: PatchLaw, batch: PatchBatch, w0: torch.Tensor, steps: int = 300) -> torch.Tensor:
    state, step = Weights(w0), training_step(SPEC, batch.x, batch.y, 0.2)
    for t in range(steps):
        state = step(state, t)
    return state.w


def test_training_on_rotated_data_is_training_on_the_data() -> None:
    batch = LAW.sample(N, stream(0, "data"))
    w0 = SPEC.init(2, 60, stream(0, "init"))
    u, v = LAW.features()
    everything = torch.cat([u, v, batch.x.flatten(0, 1), w0.flatten(0, 1)])
    copy = rotate(everything).coordinates
    x, w = copy[4 : 4 + N * 5].view(N, 5, -1), copy[4 + N * 5 :].view(2, 3, -1)
    direct, compact = train(LAW, batch, w0), train(LAW, batch._replace(x=x), w)
    assert torch.allclose(
        direct.flatten(0, 1) @ direct.flatten(0, 1).mT,
        compact.flatten(0, 1) @ compact.flatten(0, 1).mT,
        atol=1e-9,
    )
    assert torch.allclose(direct @ torch.cat([u, v]).mT, compact @ copy[:4].mT, atol=1e-9)


def test_drawn_copies_train_as_direct_samples_do() -> None:
    found: dict[str, list[float]] = {"direct": [], "copy": []}
    for seed in range(150):
        batch = LAW.sample(N, stream(seed, "direct"))
        w = train(LAW, batch, SPEC.init(2, 60, stream(seed, "init")), 60)
        found["direct"].append(float(own_correlations(feature_correlations(w, LAW).v).max()))
        law, batch, vectors = compact_patches(LAW, N, 6, stream(seed, "copy"))
        w = train(law, batch, 0.1 * vectors.view(2, 3, -1), 60)
        found["copy"].append(float(own_correlations(feature_correlations(w, law).v).max()))
    assert sps.ks_2samp(found["direct"], found["copy"]).pvalue > 1e-3


def test_the_copy_has_the_gram_of_direct_samples() -> None:
    norms, products = [], []
    for seed in range(300):
        law, batch, vectors = compact_patches(LAW.replace(d=5000), N, 6, stream(seed, "gram"))
        noise = batch.x - law.signal(batch.y, batch.robust, batch.amplitude)
        norms.append(float(noise[0, 0].square().sum()) / 0.12**2)
        products.append(float(noise[0, 0] @ vectors[0]) / 0.12)
    assert sps.kstest(norms, sps.chi2(5000).cdf).pvalue > 1e-3
    assert sps.kstest([p / 5000**0.5 for p in products], "norm").pvalue > 1e-3


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(BadInput, match="dimensions"):
        compact_patches(LAW.replace(d=20), N, 6, stream(0, "x"))
    with pytest.raises(BadInput, match="axes"):
        compact_patches(LAW.replace(frame="random"), N, 6, stream(0, "x"))
