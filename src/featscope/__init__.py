"""featscope: run, check and measure the feature-learning theory of adversarial examples."""

__version__ = "0.1.0"
