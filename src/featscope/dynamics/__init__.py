"""Training as state → state steps, run and recorded by one loop."""
