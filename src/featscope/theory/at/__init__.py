"""The claims of AT (Li and Li, arXiv 2410.08503), on synthetic data and on real images."""

from featscope.theory.at.feature_attacks import CLAIMS as ATTACKS
from featscope.theory.at.images import CLAIMS as IMAGES
from featscope.theory.at.law import CLAIMS as LAW
from featscope.theory.at.noise import CLAIMS as NOISE
from featscope.theory.at.recursion import CLAIMS as RECURSION
from featscope.theory.at.scaling import CLAIMS as SCALING
from featscope.theory.at.training import CLAIMS as TRAINING

CLAIMS = (*LAW, *RECURSION, *SCALING, *NOISE, *TRAINING, *IMAGES, *ATTACKS)
