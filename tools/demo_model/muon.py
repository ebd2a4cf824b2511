"""Muon for the hidden matrices: momentum, orthogonalised by Newton-Schulz steps."""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonal(g: Tensor, steps: int = 5) -> Tensor:
    """Approximate U V^T of each matrix of a stack [n, rows, columns]."""
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Matrices of one shape are updated together."""

    def __init__(self, params: list[Tensor], lr: float, momentum: float = 0.95, decay: float = 0.0) -> None:
        groups: dict[torch.Size, list[Tensor]] = {}
        for p in params:
            groups.setdefault(p.shape, []).append(p)
        super().__init__([{"params": g} for g in groups.values()], dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self, closure=None) -> None:
        for group in self.param_groups:
            params = group["params"]
            grads = torch.stack([p.grad for p in params])
            state = self.state[params[0]]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(grads)
            momentum = state["momentum"].lerp_(grads, 1 - group["momentum"])
            update = orthogonal(grads.lerp(momentum, group["momentum"])).float()
            scale = group["lr"] * max(1.0, grads.shape[-2] / grads.shape[-1]) ** 0.5
            torch._foreach_mul_(params, 1 - group["lr"] * group["decay"])
            torch._foreach_add_(params, list(update.unbind()), alpha=-scale)
