"""A layer and what reads its output as one module: whitening in the weights, in training too."""

from typing import Any, List, Optional

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from .modules import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d, BatchOrthoLayer


def is_plain(module: nn.Module, kind: Any) -> bool:
    """Of that very class, and nothing but its weights decides what it computes: no hooks, weight norms and the like."""
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
    return type(module) is kind and not hooks and not hasattr(module, "parametrizations")


class _Folded(nn.Module):
    """reader(norm(x)) with norm's map in the reader's weights; children ``norm`` and ``conv`` or ``linear``.

    Where that would lose digits a batch goes through one and then the other; ``unfolded`` counts those of
    training.
    """

    unfolded: int
    _stride: List[int]
    _padding: List[int]
    _dilation: List[int]
    _beforehand: List[int]
    _shape: List[int]

    def __init__(self, norm: BatchOrthoLayer) -> None:
        super().__init__()
        self.norm = norm
        self.unfolded = 0
        # TorchScript has no empty lists without a type: a convolution of no groups is a linear layer.
        self._stride = [1]
        self._padding = [0, 0]
        self._dilation = [1]
        self._groups = 0
        self._zeros = True

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            if isinstance(x, torch.fx.Proxy):
                leaf = self._leaf(x)
                if leaf is not None:
                    return leaf
        if self.norm.synchronized and self.norm.training and not self.norm.frozen:
            return self._both(x)
        return self._joined(x)

    def _run(self, x: Tensor, read: Optional[Tensor], weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        norm = self.norm
        training = norm.training and not norm.frozen
        mean, statistic = norm.running_mean, norm._statistic()
        if training or mean is None or statistic is None:
            out = torch.ops.orthobatch.folded_train(
                x, read, norm.weight, norm.bias, norm.skew, weight, bias, self._stride, self._padding,
                self._dilation, self._groups, self._zeros, norm.spec, norm.num_features, norm.dims,
                norm.sample_stride, norm._averages_transform, norm.name,
            )  # fmt: skip
            if training:
                norm._track(out[1], out[2], out[3], out[4])
            if not torch.jit.is_scripting():
                self._note_both(out, out[2], out[4])
            return out[0]
        return torch.ops.orthobatch.folded_evaluate(
            x, read, norm.weight, norm.bias, norm.skew, weight, bias, self._stride, self._padding,
            self._dilation, self._groups, self._zeros, mean, statistic, norm.spec, norm.num_features,
            norm.dims, norm._averages_transform, norm.name,
        )  # fmt: skip

    @torch.jit.unused
    def _leaf(self, x: Any) -> Any:
        return BatchOrthoLayer._leaf(self, x)

    @torch.jit.unused
    def _note_both(self, out: Any, covariance: Any, report: Any) -> None:
        before = self.norm._batch
        self.norm._note(out, covariance, report)
        if self.norm._batch is not before and self.norm._batch is not None:
            self.__dict__["unfolded"] = self.unfolded + self.norm._batch[1][4]


class _FoldedConv(_Folded):
    _dims = 0

    def __init__(self, norm: BatchOrthoLayer, conv: Any) -> None:
        super().__init__(norm)
        self.conv = conv
        kind = type(self).__name__
        dims = self._dims
        norms = {1: BatchOrtho1d, 2: BatchOrtho2d, 3: BatchOrtho3d}
        convs = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
        if not isinstance(norm, norms[dims]) or not is_plain(conv, convs[dims]):
            raise ValueError(
                f"{kind}: expected a {norms[dims].__name__} and a {convs[dims].__name__} without hooks, got "
                f"{type(norm).__name__} and {type(conv).__name__}"
            )
        if norm.num_features != conv.in_channels:
            raise ValueError(
                f"{kind}: expected a convolution that reads the {norm.num_features} channels of the norm, "
                f"got one of {conv.in_channels}"
            )
        self._stride = list(conv.stride)
        self._dilation = list(conv.dilation)
        self._groups = conv.groups
        self._zeros = conv.padding_mode == "zeros"
        self._mode = "constant" if self._zeros else conv.padding_mode
        self._padding = []
        for d in range(dims):
            if conv.padding == "valid":
                first = last = 0
            elif conv.padding == "same":
                total = conv.dilation[d] * (conv.kernel_size[d] - 1)
                first, last = total // 2, total - total // 2
            else:
                first = last = int(conv.padding[d])
            self._padding += [first, last]
        # What the convolution cannot do itself, the last direction first.
        self._beforehand = []
        for d in reversed(range(dims)):
            first, last = self._padding[2 * d : 2 * d + 2]
            self._beforehand += [0, last - first] if self._zeros else [first, last]
        self._pads = any(self._beforehand)

    def _both(self, x: Tensor) -> Tensor:
        return self.conv(self.norm(x))

    def _joined(self, x: Tensor) -> Tensor:
        read: Optional[Tensor] = None
        if self._pads:
            read = F.pad(x, self._beforehand, self._mode)
        return self._run(x, read, self.conv.weight, self.conv.bias)


class FoldedConv1d(_FoldedConv):
    """conv(norm(x)) of a BatchOrtho1d and a Conv1d."""

    _dims = 1


class FoldedConv2d(_FoldedConv):
    """conv(norm(x)) of a BatchOrtho2d and a Conv2d."""

    _dims = 2


class FoldedConv3d(_FoldedConv):
    """conv(norm(x)) of a BatchOrtho3d and a Conv3d."""

    _dims = 3


class FoldedLinear(_Folded):
    """linear(norm(x).flatten(1)) of any BatchOrtho layer and a Linear.

    With ``flattened`` it takes x.flatten(1) in the place of x; the places that a sample_stride sees would be others then.
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
                f"FoldedLinear: expected a linear layer that reads maps of the {norm.num_features} channels "
                f"of the norm, got one of {linear.in_features} inputs"
            )
        if flattened and norm.sample_stride > 1:
            raise ValueError("FoldedLinear: expected whole maps where the norm has a sample_stride, got flattened ones")
        self.linear = linear
        self.flattened = flattened
        places = linear.in_features // norm.num_features
        self._shape = [norm.num_features, places] + [1] * (norm.dims - 1)

    def _both(self, x: Tensor) -> Tensor:
        maps = x.unflatten(1, self._shape) if self.flattened else x
        return self.linear(self.norm(maps).flatten(1))

    def _joined(self, x: Tensor) -> Tensor:
        if self.flattened:
            x = x.unflatten(1, self._shape)
        return self._run(x, None, self.linear.weight, self.linear.bias)
