"""RWKV-7 in PyTorch: a trainable model with the official parameter names, and a
batched step-by-step decoder for evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wkv7 import HEAD, wkv7

DECAY = -0.6065306597126334  # -exp(-0.5)
GROUP_EPS = 64e-5


@dataclass
class Config:
    rows: int = 320
    layers: int = 6
    width: int = 256
    ffn: int = 768
    rank_w: int = 32
    rank_a: int = 32
    rank_v: int = 32
    rank_g: int = 64

    @property
    def heads(self) -> int:
        return self.width // HEAD


def shift(z: Tensor, keep: Tensor) -> Tensor:
    """The previous token's vector; zeros where a document starts (keep = 0)."""
    return F.pad(z, (0, 0, 1, 0))[:, :-1] * keep


class TimeMix(nn.Module):
    def __init__(self, cfg: Config, layer: int) -> None:
        super().__init__()
        C, H = cfg.width, cfg.heads
        self.first = layer == 0
        depth = layer / max(cfg.layers - 1, 1)
        rest = 1 - layer / cfg.layers
        at = torch.arange(C) / C

        def vector(t: Tensor) -> nn.Parameter:
            return nn.Parameter(t.float().clone())

        def low(rank: int) -> tuple[nn.Parameter, nn.Parameter]:
            up = torch.empty(rank, C)
            nn.init.orthogonal_(up, gain=0.1 * max(1.0, math.sqrt(rank / C)))
            return nn.Parameter(torch.zeros(C, rank)), nn.Parameter(up)

        for name, power in (("r", 0.2), ("w", 0.9), ("k", 0.7), ("v", 0.7), ("a", 0.9), ("g", 0.2)):
            self.register_parameter("x_" + name, vector(1 - at ** (power * rest)))
        n = torch.arange(C) / (C - 1)
        zigzag = ((torch.arange(C) % HEAD) - (HEAD - 1) / 2) / ((HEAD - 1) / 2)
        zigzag = zigzag * zigzag.abs()
        self.w0 = vector(-7.0 + 6.5 * n ** (1 + depth ** 0.3) + 0.5 + zigzag * 2.0)
        self.w1, self.w2 = low(cfg.rank_w)
        self.a0 = vector(-0.19 + zigzag * 0.3 + (n - 0.5) * 0.4)
        self.a1, self.a2 = low(cfg.rank_a)
        if not self.first:
            self.v0 = vector(0.73 - (n - 0.5) * 0.4)
            self.v1, self.v2 = low(cfg.rank_v)
        self.g1, self.g2 = low(cfg.rank_g)
        self.k_k = vector(0.71 - (n - 0.5) * 0.1)
        self.k_a = vector(torch.full((C,), 1.02))
        self.r_k = nn.Parameter(torch.full((H, HEAD), -0.04))
        for name, scale in (("receptance", 0.5), ("key", 0.05), ("value", 0.5), ("output", 0.0)):
            linear = nn.Linear(C, C, bias=False)
            nn.init.uniform_(linear.weight, -scale * C ** -0.5, scale * C ** -0.5)
            self.add_module(name, linear)
        self.ln_x = nn.GroupNorm(H, C, eps=GROUP_EPS)
        nn.init.constant_(self.ln_x.weight, ((1 + layer) / cfg.layers) ** 0.7)

    def forward(self, z: Tensor, v_first: Tensor | None, keep: Tensor, s0: Tensor, reset: Tensor
                ) -> tuple[Tensor, Tensor]:
        B, T, C = z.shape
        H = C // HEAD
        d = shift(z, keep) - z
        xr, xw, xk, xv, xa, xg = (z + d * x for x in (self.x_r, self.x_w, self.x_k, self.x_v, self.x_a, self.x_g))
        r, k, v = self.receptance(xr), self.key(xk), self.value(xv)
        u = self.w0 + (torch.tanh(xw @ self.w1) @ self.w2).float()
        w = torch.exp(DECAY * torch.sigmoid(u))
        alpha = torch.sigmoid(self.a0 + (xa @ self.a1) @ self.a2)
        g = torch.sigmoid(xg @ self.g1) @ self.g2
        kk = F.normalize((k * self.k_k).float().view(B, T, H, HEAD), dim=-1, eps=1e-12)
        k = k * (1 + (alpha - 1) * self.k_a)
        if self.first:
            v_first = v
        else:
            v = v + (v_first - v) * torch.sigmoid(self.v0 + (xv @ self.v1) @ self.v2)

        def heads(t: Tensor) -> Tensor:
            return t.to(r.dtype).view(B, T, H, HEAD)

        r, k, v = heads(r), heads(k), heads(v)
        y = wkv7(r, w.view(B, T, H, HEAD), k, v, heads(-kk), heads(kk * alpha.view(B, T, H, HEAD)), s0, reset).float()
        y = (y - y.mean(-1, keepdim=True)) * torch.rsqrt(y.var(-1, unbiased=False, keepdim=True) + GROUP_EPS)
        y = y.view(B, T, C) * self.ln_x.weight + self.ln_x.bias
        bonus = (r.float() * k.float() * self.r_k).sum(-1, keepdim=True) * v.float()
        return self.output((y + bonus.view(B, T, C)) * g), v_first


class ChannelMix(nn.Module):
    def __init__(self, cfg: Config, layer: int) -> None:
        super().__init__()
        C = cfg.width
        self.x_k = nn.Parameter((1 - (torch.arange(C) / C) ** ((1 - layer / cfg.layers) ** 4)))
        self.key = nn.Linear(C, cfg.ffn, bias=False)
        self.value = nn.Linear(cfg.ffn, C, bias=False)
        nn.init.uniform_(self.key.weight, -0.5 * C ** -0.5, 0.5 * C ** -0.5)
        nn.init.zeros_(self.value.weight)

    def forward(self, z: Tensor, keep: Tensor) -> Tensor:
        return self.value(torch.relu(self.key(z + (shift(z, keep) - z) * self.x_k)) ** 2)


class Block(nn.Module):
    def __init__(self, cfg: Config, layer: int) -> None:
        super().__init__()
        if layer == 0:
            self.ln0 = nn.LayerNorm(cfg.width)
        self.ln1 = nn.LayerNorm(cfg.width)
        self.ln2 = nn.LayerNorm(cfg.width)
        self.att = TimeMix(cfg, layer)
        self.ffn = ChannelMix(cfg, layer)

    def forward(self, x: Tensor, v_first: Tensor | None, keep: Tensor, s0: Tensor, reset: Tensor
                ) -> tuple[Tensor, Tensor]:
        att, v_first = self.att(self.ln1(x), v_first, keep, s0, reset)
        x = x + att
        return x + self.ffn(self.ln2(x), keep), v_first


class Model(nn.Module):
    """`time_state` (the initial state of every head) is not part of the weights."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.rows, cfg.width)
        nn.init.normal_(self.emb.weight, std=0.5)
        self.blocks = nn.ModuleList(Block(cfg, layer) for layer in range(cfg.layers))
        self.ln_out = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.rows, bias=False)
        nn.init.uniform_(self.head.weight, -0.5 * cfg.width ** -0.5, 0.5 * cfg.width ** -0.5)
        self.time_state = nn.ParameterList(
            nn.Parameter(torch.zeros(cfg.heads, HEAD, HEAD)) for _ in range(cfg.layers))

    def forward(self, tokens: Tensor, keep: Tensor, reset: Tensor) -> Tensor:
        x = self.blocks[0].ln0(self.emb(tokens))
        v_first = None
        for block, s0 in zip(self.blocks, self.time_state):
            x, v_first = block(x, v_first, keep, s0, reset)
        return self.head(self.ln_out(x))

    def weights(self) -> dict[str, Tensor]:
        """All tensors of the shipped file, by official name and shape (views of the parameters)."""
        mixes = (".x_r", ".x_w", ".x_k", ".x_v", ".x_a", ".x_g", ".w0", ".a0", ".v0", ".k_k", ".k_a")
        return {n: p.detach().view(1, 1, -1) if n.endswith(mixes) else p.detach()
                for n, p in self.named_parameters() if not n.startswith("time_state")}


class Decoder:
    """Greedy decoding of many rows at once, one token per step, in float32."""

    def __init__(self, weights: dict[str, Tensor], device: torch.device, time_state: list[Tensor] | None = None) -> None:
        self.p = {n: (t.reshape(-1) if t.shape[:2] == (1, 1) else t).to(device).float() for n, t in weights.items()}
        self.layers = 1 + max(int(n.split(".")[1]) for n in weights if n.startswith("blocks."))
        self.heads = self.p["blocks.0.att.r_k"].shape[0]
        self.width = self.p["emb.weight"].shape[1]
        self.device = device
        self.time_state = time_state
        emb = self.p["emb.weight"]
        self.table = F.layer_norm(emb, (self.width,), self.p["blocks.0.ln0.weight"], self.p["blocks.0.ln0.bias"])

    def zero_state(self, rows: int) -> list[list[Tensor]]:
        C, H = self.width, self.heads
        state = []
        for layer in range(self.layers):
            wkv = torch.zeros(rows, H, HEAD, HEAD, device=self.device)
            if self.time_state is not None:
                wkv = self.time_state[layer].to(self.device).float().expand(rows, H, HEAD, HEAD).clone()
            state.append([torch.zeros(rows, C, device=self.device), wkv, torch.zeros(rows, C, device=self.device)])
        return state

    def step(self, tokens: Tensor, state: list[list[Tensor]]) -> Tensor:
        """Feed one token per row; returns logits [rows, V] and changes the state."""
        x = self.table[tokens]
        B, C, H = x.shape[0], self.width, self.heads
        v_first = x
        for layer in range(self.layers):
            def p(name: str, at: str = f"blocks.{layer}.") -> Tensor:
                return self.p[at + name]

            z = F.layer_norm(x, (C,), p("ln1.weight"), p("ln1.bias"))
            d = state[layer][0] - z
            state[layer][0] = z
            xr, xw, xk, xv, xa, xg = (z + d * p("att.x_" + c) for c in "rwkvag")
            r = xr @ p("att.receptance.weight").T
            k = xk @ p("att.key.weight").T
            v = xv @ p("att.value.weight").T
            w = torch.exp(DECAY * torch.sigmoid(p("att.w0") + torch.tanh(xw @ p("att.w1")) @ p("att.w2")))
            alpha = torch.sigmoid(p("att.a0") + xa @ p("att.a1") @ p("att.a2"))
            g = torch.sigmoid(xg @ p("att.g1")) @ p("att.g2")
            kk = F.normalize((k * p("att.k_k")).view(B, H, HEAD), dim=-1, eps=1e-12)
            k = (k * (1 + (alpha - 1) * p("att.k_a"))).view(B, H, HEAD)
            if layer == 0:
                v_first = v
            else:
                v = v + (v_first - v) * torch.sigmoid(p("att.v0") + xv @ p("att.v1") @ p("att.v2"))
            r, vh, w = r.view(B, H, HEAD), v.view(B, H, HEAD), w.view(B, H, 1, HEAD)
            S = state[layer][1]
            sa = S @ -kk[..., None]
            S = S * w + sa * (kk * alpha.view(B, H, HEAD))[:, :, None, :] + vh[..., None] * k[:, :, None, :]
            state[layer][1] = S
            y = (S @ r[..., None]).view(B, C)
            y = F.group_norm(y, H, p("att.ln_x.weight"), p("att.ln_x.bias"), GROUP_EPS)
            y = y + ((r * k * p("att.r_k")).sum(-1, keepdim=True) * vh).view(B, C)
            x = x + (y * g) @ p("att.output.weight").T
            z = F.layer_norm(x, (C,), p("ln2.weight"), p("ln2.bias"))
            h = torch.relu((z + (state[layer][2] - z) * p("ffn.x_k")) @ p("ffn.key.weight").T)
            state[layer][2] = z
            x = x + (h * h) @ p("ffn.value.weight").T
        x = F.layer_norm(x, (C,), self.p["ln_out.weight"], self.p["ln_out.bias"])
        return x @ self.p["head.weight"].T

    @torch.no_grad()
    def greedy(self, prompts: list[list[int]], most: int = 400) -> tuple[list[list[int]], list[float]]:
        """Answers up to id 0, and for each row the smallest gap between the two best logits."""
        rows = len(prompts)
        lengths = torch.tensor([len(p) for p in prompts], device=self.device)
        longest = int(lengths.max())
        fed = torch.zeros(rows, longest, dtype=torch.long)
        for i, prompt in enumerate(prompts):
            fed[i, :len(prompt)] = torch.tensor(prompt)
        fed = fed.to(self.device)
        out = torch.zeros(rows, longest + most, dtype=torch.long, device=self.device)
        gap = torch.full((rows,), 1e9, device=self.device)
        done = torch.zeros(rows, dtype=torch.bool, device=self.device)
        last = fed[:, 0]
        state = self.zero_state(rows)
        for t in range(longest + most):
            token = torch.where(t < lengths, fed[:, min(t, longest - 1)], last)
            two = self.step(token, state).topk(2)
            last = two.indices[:, 0]
            answering = (t >= lengths - 1) & ~done & (t < lengths - 1 + most)
            gap = torch.where(answering, torch.minimum(gap, two.values[:, 0] - two.values[:, 1]), gap)
            out[:, t] = torch.where(answering, last, -1)
            done |= (answering & (last == 0)) | (t >= lengths - 2 + most)
            if t % 8 == 0 and bool(done.all()):
                break
        answers = [[i for i in row if i > 0] for row in out[:, :t + 1].tolist()]
        return answers, gap.tolist()
