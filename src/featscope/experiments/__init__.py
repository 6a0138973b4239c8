"""Experiments: a validated spec in named profiles, and a function that runs it into a run folder."""

from featscope.core.doors import callable_package

callable_package(__name__)
