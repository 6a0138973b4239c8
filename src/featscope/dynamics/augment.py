"""Augmentation of image batches: shifts within a zero margin and mirror images, drawn from a stream."""

from __future__ import annotations

import torch
from torch import Tensor

from featscope.core.frozen import Value
from featscope.core.settings import setting


class Augment(Value):
    """Each image is shifted by up to ``shift`` pixels in both directions, black moving in, and mirrored with
    chance ½ if ``mirror``."""

    shift: int = setting(0, "most pixels of a random shift", ge=0)
    mirror: bool = setting(False, "mirror images with chance ½")

    def __call__(self, x: Tensor, rng: torch.Generator) -> Tensor:
        """Augmented copies of images (N, C, H, W)."""
        if self.shift:
            x = self._shifted(x, rng)
        if self.mirror:
            flip = torch.randint(0, 2, (len(x),), generator=rng).bool().to(x.device)
            x = torch.where(flip[:, None, None, None], x.flip(-1), x)
        return x

    def _shifted(self, x: Tensor, rng: torch.Generator) -> Tensor:
        n, channels, height, width = x.shape
        s = self.shift
        padded = torch.nn.functional.pad(x, (s, s, s, s))
        offset = torch.randint(0, 2 * s + 1, (2, n), generator=rng).to(x.device)
        rows = (offset[0][:, None] + torch.arange(height, device=x.device))[:, None, :, None]
        columns = (offset[1][:, None] + torch.arange(width, device=x.device))[:, None, None, :]
        who = torch.arange(n, device=x.device)[:, None, None, None]
        which = torch.arange(channels, device=x.device)[None, :, None, None]
        return padded[who, which, rows, columns]
