"""Layers whose statistics are those of the batches of all processes, under DistributedDataParallel."""

import hashlib
from typing import Any, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ._library import ops


class Synchronized(torch.autograd.Function):
    """`train` with one collective forward and one backward. The parameters' gradients stay this process's own:
    DistributedDataParallel averages them with the others."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Any, bias: Any, skew: Any, layer: Any, transform: bool, group: Any) -> Any:
        spec, channels, dims, stride, name = layer
        own = ops.statistics(x, spec, channels, dims, stride, name)
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, own, group=group)
        merged = ops.merge(parts, spec, channels)
        out = ops.train_on(x, weight, bias, skew, merged, spec, channels, dims, stride, transform, name)
        ctx.mark_non_differentiable(*out[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight, bias, skew, out[5])
        ctx.layer, ctx.group = layer, group
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Optional[Tensor], *_: Any) -> Any:
        if grad is None:
            grad = torch.zeros_like(ctx.saved_tensors[0])  # the others wait for this process's part
        x, weight, bias, skew, tape = ctx.saved_tensors
        spec, channels, dims, stride, name = ctx.layer
        own = ops.sums(grad, x, weight, bias, skew, tape, spec, channels, dims, stride, name)
        total = own
        wanted = list(ctx.needs_input_grad[:4])
        if wanted[0]:
            total = own.clone()
            dist.all_reduce(total, group=ctx.group)
        grads = ops.backward_on(
            grad, x, weight, bias, skew, tape, own, total, spec, channels, dims, stride, name, wanted
        )
        return (*(g if w else None for g, w in zip(grads, wanted)), None, None, None)


def convert_sync(module: nn.Module, process_group: Optional[Any] = None) -> nn.Module:
    """Every BatchOrtho layer of a net shares its statistics with those of the group (None: all processes) from now on.

    In place; all ranks call it with the same net, and each raises where a rank has other layers. Use it before
    DistributedDataParallel, as torch's ``convert_sync_batchnorm``.
    """
    from .tools import layers_of

    found = layers_of(module)
    text = "\n".join(f"{path} {m.spec} {m.num_features} {m.sample_stride}" for path, m in found)
    digest = hashlib.sha256(text.encode()).digest()
    # Of one size whatever a rank has: collectives of unequal sizes end the process.
    own = torch.tensor([len(found)] + list(digest), dtype=torch.long)
    ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(process_group))]
    dist.all_gather(ranks, own, group=process_group)
    for rank, other in enumerate(ranks):
        if not torch.equal(other, ranks[0]):
            raise RuntimeError(
                f"convert_sync: expected the same layers on all ranks, but rank {rank} has others than rank 0 "
                f"({int(other[0])} layers against {int(ranks[0][0])})"
            )
    for _, layer in found:
        layer.synchronized = True
        layer.process_group = process_group
    return module
