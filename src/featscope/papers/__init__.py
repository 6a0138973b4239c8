"""One room for each paper: its experiments, claims, figures, printed numbers and certificate checks, side by
side."""
