"""Data distributions of the papers as frozen values; a batch is a sample of one."""
