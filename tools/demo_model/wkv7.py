"""The RWKV-7 recurrence as a differentiable PyTorch operator.

On a CUDA device the kernels of wkv7.cu are compiled with nvcc and called; on a
CPU a plain loop does the same (slow, for checks and for patient people).
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import torch

HEAD = 64
CHUNK = 16

# Gradients of the initial state cost atomics; only state tuning switches them on.
want_state_grad = False


@lru_cache
def _library() -> ctypes.CDLL:
    source = Path(__file__).with_name("wkv7.cu")
    major, minor = torch.cuda.get_device_capability()
    target = Path(tempfile.mkdtemp()) / "wkv7.so"
    subprocess.run(["nvcc", "-O3", "-shared", "-Xcompiler", "-fPIC", f"-arch=sm_{major}{minor}", "--use_fast_math",
                    "-o", str(target), str(source)], check=True)
    return ctypes.CDLL(str(target))


def _call(name: str, like: torch.Tensor, tensors: list[torch.Tensor | None]) -> None:
    rows, length, heads, _ = like.shape
    assert all(t is None or t.is_contiguous() for t in tensors)
    pointers = (ctypes.c_void_p * len(tensors))(*[None if t is None else t.data_ptr() for t in tensors])
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    code = getattr(_library(), name)(int(like.dtype == torch.bfloat16), rows, length, heads, pointers, stream)
    if code:
        raise RuntimeError(f"{name}: CUDA error {code}")


@torch.library.custom_op("fulmar::wkv7", mutates_args=())
def wkv7_op(r: torch.Tensor, w: torch.Tensor, k: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
            s0: torch.Tensor, reset: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, length, heads, size = r.shape
    y = torch.empty_like(r)
    kept = torch.empty(rows, heads, length // CHUNK, size, size, dtype=torch.float32, device=r.device)
    sa = torch.empty(r.shape, dtype=torch.float32, device=r.device)
    _call("wkv7_forward", r, [r, w, k, v, a, b, s0, reset, y, kept, sa])
    return y, kept, sa


@wkv7_op.register_fake
def _(r, w, k, v, a, b, s0, reset):  # shapes for the compiler
    rows, length, heads, size = r.shape
    kept = torch.empty(rows, heads, length // CHUNK, size, size, dtype=torch.float32, device=r.device)
    return torch.empty_like(r), kept, torch.empty(r.shape, dtype=torch.float32, device=r.device)


@torch.library.custom_op("fulmar::wkv7_grad", mutates_args=())
def wkv7_grad(r: torch.Tensor, w: torch.Tensor, k: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor,
              s0: torch.Tensor, reset: torch.Tensor, dy: torch.Tensor, kept: torch.Tensor, sa: torch.Tensor
              ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    dr, dw, dk, dv, da, db = (torch.empty_like(t) for t in (r, w, k, v, a, b))
    ds0 = torch.zeros_like(s0)
    _call("wkv7_backward", r, [r, w, k, v, a, b, reset, dy, kept, sa, dr, dw, dk, dv, da, db,
                               ds0 if want_state_grad else None])
    return dr, dw, dk, dv, da, db, ds0


@wkv7_grad.register_fake
def _(r, w, k, v, a, b, s0, reset, dy, kept, sa):  # shapes for the compiler
    return tuple(torch.empty_like(t) for t in (r, w, k, v, a, b, s0))


def _setup(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output[1], output[2])


def _backward(ctx, dy, _kept, _sa):
    *inputs, kept, sa = ctx.saved_tensors
    return (*wkv7_grad(*inputs, dy.to(inputs[0].dtype).contiguous(), kept, sa), None)


wkv7_op.register_autograd(_backward, setup_context=_setup)


def plain(r, w, k, v, a, b, s0, reset) -> torch.Tensor:
    """The recurrence as a loop over tokens, differentiable by autograd."""
    rows, length, heads, size = r.shape
    state = torch.zeros(rows, heads, size, size, dtype=r.dtype, device=r.device)
    outputs = []
    for t in range(length):
        if t % CHUNK == 0:
            fresh = reset[:, t // CHUNK].to(torch.bool).view(rows, 1, 1, 1)
            state = torch.where(fresh, s0.to(r.dtype), state)
        sa = state @ a[:, t, :, :, None]
        state = (state * w[:, t, :, None, :] + sa * b[:, t, :, None, :]
                 + v[:, t, :, :, None] * k[:, t, :, None, :])
        outputs.append((state @ r[:, t, :, :, None])[..., 0])
    return torch.stack(outputs, 1)


def wkv7(r, w, k, v, a, b, s0, reset) -> torch.Tensor:
    """All of r, k, v, a, b: [rows, length, heads, 64]; w the decay factor, float32."""
    if r.is_cuda:
        return wkv7_op(*(t.contiguous() for t in (r, w, k, v, a, b)), s0, reset)[0]
    return plain(r, w, k, v, a, b, s0, reset)


def check() -> None:
    """Compare outputs and gradients of the kernels with autograd of the plain loop."""
    global want_state_grad
    want_state_grad = True
    torch.manual_seed(0)
    rows, length, heads, size = 3, 96, 2, HEAD
    shape = (rows, length, heads, size)

    def leaf(t: torch.Tensor) -> torch.Tensor:
        return t.cuda().requires_grad_()

    kk = torch.nn.functional.normalize(torch.randn(shape), dim=-1)
    alpha = torch.rand(shape)
    w = torch.exp(-0.6065306597 * torch.sigmoid(torch.randn(shape) * 3))
    leaves = [leaf(t) for t in (torch.randn(shape), w, torch.randn(shape), torch.randn(shape), -kk, kk * alpha,
                                torch.randn(heads, size, size))]
    reset = (torch.rand(rows, length // CHUNK) < 0.4).to(torch.uint8).cuda()
    reset[:, 0] = 1
    dy = torch.randn(shape).cuda()
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    want_y = plain(*doubles, reset)
    want_y.backward(dy.double())
    for dtype in (torch.float32, torch.bfloat16):
        ins = [t.detach().to(torch.float32 if i in (1, 6) else dtype).requires_grad_() for i, t in enumerate(leaves)]
        y = wkv7(*ins, reset)
        y.backward(dy.to(dtype))
        report = {"y": (y, want_y)} | {n: (i.grad, d.grad) for n, i, d in zip("r w k v a b s0".split(), ins, doubles)}
        for name, (got, want) in report.items():
            error = ((got.double() - want).norm() / want.norm()).item()
            print(f"{dtype} {name}: relative error {error:.1e}")
            assert error < (1e-4 if dtype == torch.float32 else 3e-2), name
    want_state_grad = False


if __name__ == "__main__":
    check()
