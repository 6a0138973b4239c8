"""What every part stands on: errors, random streams, balls, losses, statistics and the run folder."""
