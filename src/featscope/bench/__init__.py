"""Speed, always as ratios measured within one run."""
