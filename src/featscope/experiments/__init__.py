"""Experiments: a validated spec in named profiles, and a function that runs it into a run folder."""
