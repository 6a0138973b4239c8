"""ReLU networks built by hand as explicit graphs with exact parameter counts (CGRO §5, EP)."""
