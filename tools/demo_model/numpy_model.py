"""A forward pass of the shipped file with numpy alone, one token at a time.

Written apart from the PyTorch code on purpose: it proves that the file itself
is right, not only the program that wrote it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from files import read_safetensors

Array = np.ndarray
KINDS = {"F16": "<f2", "F32": "<f4"}


def _sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def _norm(x: Array, weight: Array, bias: Array) -> Array:
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * weight + bias


class NumpyModel:
    """RWKV-7 in float32; everything is read off the tensors."""

    def __init__(self, path: Path) -> None:
        tensors, self.metadata = read_safetensors(path)
        self.z = {name: np.frombuffer(data, KINDS[dtype]).reshape(shape).astype(np.float32)
                  for name, (dtype, shape, data) in tensors.items()}
        self.layers = 1 + max(int(n.split(".")[1]) for n in self.z if n.startswith("blocks."))
        self.heads, self.size = self.z["blocks.0.att.r_k"].shape
        self.width = self.z["emb.weight"].shape[1]

    def empty(self) -> list[dict[str, Array]]:
        """The zero state."""
        zero = np.zeros(self.width, np.float32)
        return [{"att": zero, "ffn": zero, "S": np.zeros((self.heads, self.size, self.size), np.float32)}
                for _ in range(self.layers)]

    def _att(self, z: Array, layer: int, state: dict[str, Array], first: Array | None) -> tuple[Array, Array]:
        def p(name: str) -> Array:
            t = self.z[f"blocks.{layer}.att.{name}"]
            return t.reshape(-1) if t.ndim == 3 else t

        per_head = (self.heads, self.size)
        d = state["att"] - z
        state["att"] = z
        mixed = {c: z + d * p("x_" + c) for c in "rwkvag"}
        r = p("receptance.weight") @ mixed["r"]
        k = p("key.weight") @ mixed["k"]
        v = p("value.weight") @ mixed["v"]
        decay = np.exp(-np.exp(-0.5) * _sigmoid(p("w0") + np.tanh(mixed["w"] @ p("w1")) @ p("w2")))
        rate = _sigmoid(p("a0") + mixed["a"] @ p("a1") @ p("a2"))
        gate = _sigmoid(mixed["g"] @ p("g1")) @ p("g2")
        kk = (k * p("k_k")).reshape(per_head)
        kk = kk / np.maximum(np.linalg.norm(kk, axis=1, keepdims=True), 1e-12)
        k = k * (1 + (rate - 1) * p("k_a"))
        if first is None:
            first = v
        else:
            v = v + (first - v) * _sigmoid(p("v0") + mixed["v"] @ p("v1") @ p("v2"))
        r, k, vh, decay, rate = (t.reshape(per_head) for t in (r, k, v, decay, rate))
        S = state["S"]
        out = np.empty(per_head, np.float32)
        new = np.empty_like(S)
        for h in range(self.heads):
            removed = S[h] @ kk[h]
            new[h] = S[h] * decay[h] - np.outer(removed, kk[h] * rate[h]) + np.outer(vh[h], k[h])
            y = new[h] @ r[h]
            out[h] = (y - y.mean()) / np.sqrt(y.var() + 64e-5)
        state["S"] = new
        flat = out.reshape(-1) * p("ln_x.weight") + p("ln_x.bias")
        flat = flat + ((r * k * p("r_k")).sum(1, keepdims=True) * vh).reshape(-1)
        return p("output.weight") @ (flat * gate), first

    def step(self, token: int, state: list[dict[str, Array]]) -> Array:
        """Feed one token; the state changes; logits come back."""
        z = self.z
        x = _norm(z["emb.weight"][token], z["blocks.0.ln0.weight"], z["blocks.0.ln0.bias"])
        first: Array | None = None
        for layer in range(self.layers):
            b = f"blocks.{layer}."
            att, first = self._att(_norm(x, z[b + "ln1.weight"], z[b + "ln1.bias"]), layer, state[layer], first)
            x = x + att
            y = _norm(x, z[b + "ln2.weight"], z[b + "ln2.bias"])
            h = np.maximum(z[b + "ffn.key.weight"] @ (y + (state[layer]["ffn"] - y) * z[b + "ffn.x_k"].reshape(-1)), 0)
            state[layer]["ffn"] = y
            x = x + z[b + "ffn.value.weight"] @ (h * h)
        return z["head.weight"] @ _norm(x, z["ln_out.weight"], z["ln_out.bias"])

    def greedy(self, prompt: list[int], most: int = 400) -> tuple[list[int], float]:
        """The greedy answer before id 0, and the smallest gap of the two best logits."""
        state = self.empty()
        logits = np.zeros(1)
        for token in prompt:
            logits = self.step(token, state)
        answer: list[int] = []
        gap = float("inf")
        while len(answer) < most:
            best = int(logits.argmax())
            gap = min(gap, float(logits[best] - np.delete(logits, best).max()))
            if best == 0:
                break
            answer.append(best)
            logits = self.step(best, state)
        return answer, gap
