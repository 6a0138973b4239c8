"""Real images: where they come from, their one form on disk, and how labels are grouped."""
