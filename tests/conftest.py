"""One thread for each worker, and hypothesis without a clock."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("featscope", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("featscope")
