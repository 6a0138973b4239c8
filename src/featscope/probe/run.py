"""The whole probe: preflight → robustness → the four parts → diagnosis → probe.json and probe.html."""

from __future__ import annotations
