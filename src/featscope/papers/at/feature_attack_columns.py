"""What `image-feature-attacks` records: rates of the attacks, and what the networks had learned."""

from __future__ import annotations

from featscope.core.columns import Columns, column


class Rates(Columns):
    """One row for each data set, seed, class pair and attack: shares of images classified as the target."""

    dataset = column("the data set")
    seed = column("the references' seed")
    source = column("class of the images")
    target = column("class that the attack aims at")
    attack = column("NRF, RF, or noise: ±ε for each pixel")
    attacked_seed = column("the attacked networks' seed")
    images = column("images attacked")
    own_head = column("rate on the reference's own head")
    distance = column("‖G(X + Δ) − G(X′)‖ ÷ ‖G(X) − G(X′)‖ under the reference, median over images")
    standard = column("rate on the standard network")
    adversarial = column("rate on the adversarially trained network")
    standard_before = column("rate on the standard network at Δ = 0")
    adversarial_before = column("rate on the adversarially trained network at Δ = 0")


class Redrawn(Rates):
    """The same for further draws of the target images: the networks stay."""

    draw = column("number of the draw; the table's is 0")


class Reach(Rates):
    """The same at further radii."""

    eps = column("radius of the attacks")


#: training → the rate on its network, and that at Δ = 0
RATE = {
    "standard": (Rates.standard, Rates.standard_before),
    "adversarial": (Rates.adversarial, Rates.adversarial_before),
}


class Learned(Columns):
    """One row for each data set, training and seed: what the networks have learned."""

    dataset = column("the data set")
    method = column("standard or adversarial")
    seed = column("the network's seed")
    clean_test = column("accuracy on test images after the last epoch")
    robust_test = column("accuracy under attack, if any images were attacked")
