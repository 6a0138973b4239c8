"""What may be perturbed, how it is searched, and how robustness is counted."""
