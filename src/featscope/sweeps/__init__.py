"""Sweeps: an experiment over many settings, here or on many machines."""
