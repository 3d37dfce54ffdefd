"""BatchNorm out, BatchOrtho in."""

from __future__ import annotations

import fnmatch
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Type, Union

import torch
from torch import nn

from ._library import ops
from .modules import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d, BatchOrthoLayer

Skip = Union[None, str, Iterable[str], Callable[[str, nn.Module], bool]]

_KINDS: Dict[Type[nn.Module], Type[BatchOrthoLayer]] = {
    nn.BatchNorm1d: BatchOrtho1d,
    nn.BatchNorm2d: BatchOrtho2d,
    nn.BatchNorm3d: BatchOrtho3d,
    nn.SyncBatchNorm: BatchOrtho2d,  # whatever its input; nearly always maps
}
_LAZY = (nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)
_BATCH_NORMS = (*_KINDS, *_LAZY)
_FORWARDS = (nn.BatchNorm2d.forward, nn.SyncBatchNorm.forward)  # the first is that of all three


def _skips(skip: Skip) -> Callable[[str, nn.Module], bool]:
    if skip is None:
        return lambda path, module: False
    if callable(skip):
        return skip
    patterns = [skip] if isinstance(skip, str) else list(skip)
    return lambda path, module: any(fnmatch.fnmatchcase(path, p) for p in patterns)


def _like(bn: Any, spec: str, path: str, **options: Any) -> BatchOrthoLayer:
    """A layer in the place of a BatchNorm: its scale, bias and what it knows of the statistics."""
    kind = next(ours for theirs, ours in _KINDS.items() if isinstance(bn, theirs))
    reference = bn.weight if bn.weight is not None else bn.running_mean
    layer = kind(
        bn.num_features,
        spec,
        momentum=bn.momentum,
        affine=bn.affine,
        track_running_stats=bn.track_running_stats,
        device=None if reference is None else reference.device,
        dtype=None if reference is None else reference.dtype,
        name=path,
        **options,
    )
    with torch.no_grad():
        if layer.weight is not None and bn.weight is not None:
            layer.weight.copy_(bn.weight)
            layer.weight.requires_grad_(bn.weight.requires_grad)
        if layer.bias is not None and bn.bias is not None:
            layer.bias.copy_(bn.bias)
            layer.bias.requires_grad_(bn.bias.requires_grad)
        if layer.running_mean is not None and bn.running_mean is not None:
            layer.running_mean.copy_(bn.running_mean)
            if layer.num_batches_tracked is not None and bn.num_batches_tracked is not None:
                layer.num_batches_tracked.copy_(bn.num_batches_tracked)
            if layer.running_var is not None:
                layer.running_var.copy_(bn.running_var)
            elif not bn.running_var.is_meta:
                # The variances are known, the correlations are not: a diagonal covariance, as the method
                # would have conditioned it.
                conditioned, transform = ops.condition(bn.running_var.double().cpu(), layer.weight, spec)
                if layer.running_cov is not None:
                    layer.running_cov.copy_(conditioned)
                if layer.running_transform is not None:
                    layer.running_transform.copy_(transform)
    layer.train(bn.training)
    return layer


def convert(
    module: nn.Module,
    spec: str = "ZCA(1e-5)",
    skip: Skip = None,
    *,
    verbose: bool = True,
    **options: Any,
) -> nn.Module:
    """Replaces every BatchNorm of a net, in place, and returns the net.

    Learned scale and bias, the running mean and the variances are kept; the correlations, which
    BatchNorm does not know, start as none. Subclasses with a forward of their own, and layers with hooks,
    are left as they are; a SyncBatchNorm becomes a BatchOrtho2d. ``skip`` is a path or pattern ("layer4.*"), several, or a
    function of path and module. Whitening all channels of a wide layer together costs C³ a step:
    ``ZCA(1e-5, group_size=64)`` whitens them in groups. ``options`` go to the layers
    (``running_average``, ``sample_stride``). Says on stderr what it replaced unless ``verbose`` is False.
    """
    spec = ops.canonical(str(spec))
    skips = _skips(skip)
    replaced: List[str] = []
    skipped: List[str] = []
    left: List[str] = []
    made: Dict[int, BatchOrthoLayer] = {}  # a BatchNorm that stands in two places stays one layer
    changes: List[Any] = []  # made once everything is known to work

    def layer_for(bn: nn.Module, path: str) -> Optional[BatchOrthoLayer]:
        if skips(path, bn):
            skipped.append(path)
            return None
        if isinstance(bn, _LAZY):
            raise ValueError(
                f"convert: expected BatchNorms that know their channels, but '{path}' is a "
                f"{type(bn).__name__}; run a batch through the net first"
            )
        if type(bn).forward not in _FORWARDS or bn._forward_hooks or bn._forward_pre_hooks:
            left.append(path)  # more than a BatchNorm
            return None
        if id(bn) not in made:
            made[id(bn)] = _like(bn, spec, path, **options)
        replaced.append(path or type(bn).__name__)
        return made[id(bn)]

    result = module
    if isinstance(module, _BATCH_NORMS):
        result = layer_for(module, "") or module
    else:
        for parent_path, parent in module.named_modules():
            for child_name, child in parent._modules.items():
                if isinstance(child, _BATCH_NORMS):
                    path = f"{parent_path}.{child_name}" if parent_path else child_name
                    layer = layer_for(child, path)
                    if layer is not None:
                        changes.append((parent, child_name, layer))
        for parent, child_name, layer in changes:
            setattr(parent, child_name, layer)
    if verbose:
        text = f"orthobatch: {len(replaced)} BatchNorm layers are {spec} now"
        if replaced:
            text += f": {', '.join(replaced)}"
        if skipped:
            text += f"; skipped {', '.join(skipped)}"
        elif skip is not None:
            text += "; nothing to skip was found"
        if left:
            text += f"; left as they are, with a forward or hooks of their own: {', '.join(left)}"
        print(text, file=sys.stderr)
    return result


class norm_layer:
    """A spec as what ``norm_layer=`` arguments take: called with the channels it makes a BatchOrtho2d.

    >>> resnet18(norm_layer=orthobatch.norm_layer("ZCA(1e-5, group_size=16)"))
    """

    def __init__(self, spec: str, **options: Any) -> None:
        self.spec = ops.canonical(str(spec))
        self.options = options

    def __call__(self, num_features: int, **options: Any) -> BatchOrtho2d:
        return BatchOrtho2d(num_features, self.spec, **{**self.options, **options})

    def __repr__(self) -> str:
        return f"norm_layer({self.spec!r})"


def _function(label: str, method: str, doc: str, group_size: Optional[int] = None) -> Callable[..., BatchOrtho2d]:
    """A plain function of the channels, with BatchNorm2d's arguments, that pickles by its name."""
    groups = group_size

    def make(
        num_features: int,
        eps: float = 1e-5,
        momentum: Optional[float] = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        group_size: Optional[int] = groups,
        **options: Any,
    ) -> BatchOrtho2d:
        grouped = "" if group_size is None else f", group_size={group_size}"
        return BatchOrtho2d(
            num_features, f"{method}({eps:.17g}{grouped})", momentum, affine, track_running_stats, **options
        )

    make.__name__ = make.__qualname__ = label
    make.__doc__ = doc
    return make


bn = _function("bn", "BN", "BN(eps) over maps.")
zca = _function("zca", "ZCA", "ZCA(eps) over maps: whitening that moves the data the least.")
zca16 = _function("zca16", "ZCA", "ZCA(eps) over maps in groups of 16 channels, for nets of any width.", 16)
zca64 = _function("zca64", "ZCA", "ZCA(eps) over maps in groups of 64 channels.", 64)
zcam = _function("zcam", "ZCAM", "ZCAM(eps) over maps: ZCA with its condition number held under 100.")
zcae = _function("zcae", "ZCAE", "ZCAE(eps) over maps: ZCA floored at the effective rank.")
ldl = _function("ldl", "LDL", "LDL(eps) over maps: Cholesky whitening.")
