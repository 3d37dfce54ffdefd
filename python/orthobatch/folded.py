"""A layer and what consumes its output as one module: whitening in the weights, in training too."""

from typing import Any, Dict, List, Optional

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from .modules import LAYERS, BatchOrthoLayer, leaf_of

CONVOLUTIONS: Dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def is_plain(module: nn.Module, kind: Any) -> bool:
    """Of that very class, and nothing but its weights decides what it computes: no hooks, weight norms and the like."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return type(module) is kind and not hooks and not hasattr(module, "parametrizations")


class Folded(nn.Module):
    """consumer(norm(x)) with norm's map in the consumer's weights; children ``norm`` and ``conv`` or ``linear``.

    Where that would lose digits a batch goes through one and then the other; ``norm.unfolded`` counts those of
    training.
    """

    _consumer: List[int]
    _beforehand: List[int]
    _shape: List[int]

    def __init__(self, norm: BatchOrthoLayer) -> None:
        super().__init__()
        self.norm = norm
        self._consumer = []  # a linear layer
        self._origin: List[str] = []  # where fold_training took the norm and a Flatten from
        self._place = ""  # and put the pair

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            if isinstance(x, torch.fx.Proxy):
                leaf = leaf_of(self, x)
                if leaf is not None:
                    return leaf
        return self._joined(x)


class _FoldedConv(Folded):
    _dims = 0

    def __init__(self, norm: BatchOrthoLayer, conv: Any) -> None:
        super().__init__(norm)
        self.conv = conv
        who, dims = type(self).__name__, self._dims
        if not isinstance(norm, LAYERS[dims]) or not is_plain(conv, CONVOLUTIONS[dims]):
            raise ValueError(
                f"{who}: expected a BatchOrtho{dims}d and a Conv{dims}d without hooks, got {type(norm).__name__} and "
                f"{type(conv).__name__}"
            )
        if norm.num_features != conv.in_channels:
            raise ValueError(
                f"{who}: expected a convolution that reads the {norm.num_features} channels of the norm, got one of "
                f"{conv.in_channels}"
            )
        zeros = conv.padding_mode == "zeros"
        self._mode = "constant" if zeros else conv.padding_mode
        padding: List[int] = []
        for d in range(dims):
            total = conv.dilation[d] * (conv.kernel_size[d] - 1) if conv.padding == "same" else 0
            both = [total // 2, total - total // 2] if isinstance(conv.padding, str) else [int(conv.padding[d])] * 2
            padding += both
        self._consumer = [conv.groups, int(zeros), *conv.stride, *conv.dilation, *padding]
        # What the convolution cannot do itself, the last direction first.
        self._beforehand = []
        for d in reversed(range(dims)):
            first, last = padding[2 * d : 2 * d + 2]
            self._beforehand += [0, last - first] if zeros else [first, last]
        self._pads = any(self._beforehand)

    def _joined(self, x: Tensor) -> Tensor:
        read: Optional[Tensor] = None
        if self._pads:
            read = F.pad(x, self._beforehand, self._mode)
        return self.norm._run(x, read, self.conv.weight, self.conv.bias, self._consumer)


_DOC = """conv(norm(x)) of a BatchOrtho{d}d and a Conv{d}d, which stay what they are, in one pass for less.

    >>> both = orthobatch.FoldedConv{d}d(orthobatch.BatchOrtho{d}d(8), nn.Conv{d}d(8, 16, 3))
    >>> both(x)  # equivalent to both.conv(both.norm(x)), of its shape
    """


class FoldedConv1d(_FoldedConv):
    __doc__ = _DOC.format(d=1)
    _dims = 1


class FoldedConv2d(_FoldedConv):
    __doc__ = _DOC.format(d=2)
    _dims = 2


class FoldedConv3d(_FoldedConv):
    __doc__ = _DOC.format(d=3)
    _dims = 3


class FoldedLinear(Folded):
    """linear(norm(x).flatten(1)) of any BatchOrtho layer and a Linear, which stay what they are.

    Args:
        norm: a BatchOrtho layer over C channels.
        linear: a Linear of C × places inputs.
        flattened: takes x.flatten(1), (N, C · places), in the place of x. Not with a ``sample_stride``: the places that
            it sees would be others.

    >>> head = orthobatch.FoldedLinear(orthobatch.BatchOrtho2d(8), nn.Linear(8 * 49, 10))
    >>> head(torch.randn(32, 8, 7, 7)).shape
    torch.Size([32, 10])
    """

    def __init__(self, norm: BatchOrthoLayer, linear: nn.Linear, flattened: bool = False) -> None:
        super().__init__(norm)
        if not isinstance(norm, BatchOrthoLayer) or not is_plain(linear, nn.Linear):
            raise ValueError(
                f"FoldedLinear: expected a BatchOrtho layer and a Linear without hooks, got {type(norm).__name__} and "
                f"{type(linear).__name__}"
            )
        if linear.in_features % norm.num_features:
            raise ValueError(
                f"FoldedLinear: expected a linear layer that reads maps of the {norm.num_features} channels of the "
                f"norm, got one of {linear.in_features} inputs"
            )
        if flattened and norm.sample_stride > 1:
            raise ValueError("FoldedLinear: expected whole maps where the norm has a sample_stride, got flattened ones")
        self.linear = linear
        self.flattened = flattened
        self._shape = [norm.num_features, linear.in_features // norm.num_features] + [1] * (norm._dims - 1)

    def _joined(self, x: Tensor) -> Tensor:
        if self.flattened:
            x = x.unflatten(1, self._shape)
        return self.norm._run(x, None, self.linear.weight, self.linear.bias, self._consumer)
