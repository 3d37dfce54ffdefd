"""BatchNorm out, BatchOrtho in."""

from __future__ import annotations

import fnmatch
import functools
import logging
from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, Optional, Type, Union

import torch
from torch import Tensor, nn

from ._library import DEFAULT_SPEC, ops
from .modules import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d, BatchOrthoLayer
from .processes import Group

_log = logging.getLogger("orthobatch")

Skip = Union[None, str, Iterable[str], Callable[[str, nn.Module], bool]]

_KINDS: Dict[Type[nn.Module], Type[BatchOrthoLayer]] = {
    nn.BatchNorm1d: BatchOrtho1d,
    nn.BatchNorm2d: BatchOrtho2d,
    nn.BatchNorm3d: BatchOrtho3d,
    nn.SyncBatchNorm: BatchOrtho2d,  # whatever its input; nearly always maps
    BatchOrtho1d: BatchOrtho1d,
    BatchOrtho2d: BatchOrtho2d,
    BatchOrtho3d: BatchOrtho3d,
}
_LAZY = (nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)
_NORMS = (*_KINDS, *_LAZY)
# The first is that of all three.
_FORWARDS = (nn.BatchNorm2d.forward, nn.SyncBatchNorm.forward, BatchOrthoLayer.forward)


def _skips(skip: Skip) -> Callable[[str, nn.Module], bool]:
    if skip is None:
        return lambda path, module: False
    if callable(skip):
        return skip
    patterns = [skip] if isinstance(skip, str) else list(skip)
    return lambda path, module: any(fnmatch.fnmatchcase(path, p) for p in patterns)


def _is_fused(norm: Any) -> bool:
    """As timm's BatchNormAct2d: act(drop(batch_norm(x)))."""
    parts = isinstance(getattr(norm, "drop", None), nn.Module) and isinstance(getattr(norm, "act", None), nn.Module)
    return parts and "BatchNormAct" in type(norm).__name__


def _why_not(norm: Any) -> str:
    """Why a norm is left as it is; empty where it is not."""
    if norm._forward_hooks or norm._forward_pre_hooks:
        return "it has hooks"
    if type(norm).forward not in _FORWARDS and not _is_fused(norm):
        return f"{type(norm).__name__} has a forward of its own"
    return ""


def _set_statistics(layer: BatchOrthoLayer, norm: Any) -> None:
    """The running covariance (or variances, or transform) of a layer from that of what it stands for."""
    mean, own, own_last = layer._average()
    if isinstance(norm, BatchOrthoLayer):
        _, statistic, last = norm._average()
        same_average = norm.running_average == layer.running_average
        if same_average and statistic.shape == own.shape and (norm.running_var is None) == (layer.running_var is None):
            if layer.running_average == "covariance" or ops.same_state(norm.spec, layer.spec):
                for theirs in (statistic, last):
                    layer._buffers.update({k: b for k, b in norm._buffers.items() if b is not None and b is theirs})
                return
        if norm.running_average == "transform":
            return  # of another method: nothing follows for this one
        blocks = statistic if statistic.dim() != 2 else statistic.unsqueeze(0)
    else:
        blocks, last = norm.running_var, None
    if blocks.is_meta:
        return
    if blocks.dim() == 1:
        variance, dense = blocks, None
    else:
        dense = torch.block_diag(*blocks, *([] if last is None else [last]))
        variance = dense.diagonal()
    if layer.running_var is not None:
        if blocks is getattr(norm, "running_var", None):
            layer.running_var = norm.running_var
        else:
            layer.running_var.copy_(variance)
    elif dense is None or layer.running_average == "transform":
        # The correlations are not known: a diagonal covariance, as the method conditions it.
        for t, value in zip((own, own_last), ops.initial(variance.detach(), layer.weight, layer._text)):
            if t is not None:
                t.copy_(value)
    else:
        g, at = own.size(-1), 0
        for block in [*own.view(-1, g, g), *([] if own_last is None else [own_last])]:
            end = at + block.size(0)
            block.copy_(dense[at:end, at:end])
            at = end


@torch.no_grad()
def _like(norm: Any, spec: str, eps: Optional[float], path: str, options: Dict[str, Any]) -> nn.Module:
    """A layer in the place of a norm, with its scale, bias and what it knows of the statistics: the same objects where
    they fit."""
    ours = isinstance(norm, BatchOrthoLayer)
    if eps is None and not ours:
        eps = norm.eps
    reference = next((t for t in (norm.weight, norm.bias, norm.running_mean) if t is not None), None)
    given: Dict[str, Any] = dict(
        momentum=norm.momentum, affine=norm.affine, track_running_stats=norm.track_running_stats, eps=eps, name=path,
        bias=norm.bias is not None or not norm.affine,
    )  # fmt: skip
    if reference is not None:
        given.update(device=reference.device, dtype=reference.dtype)
    if ours:
        given.update(sample_stride=norm.sample_stride, process_group=norm.process_group)
        given.update(running_average=norm.running_average)
    elif isinstance(norm, nn.SyncBatchNorm):
        given.update(process_group=Group(norm.process_group))
    kind = next(made for theirs, made in _KINDS.items() if isinstance(norm, theirs))
    layer = kind(norm.num_features, spec, **{**given, **options})
    for name in ("weight", "bias", "skew"):
        if getattr(layer, name) is not None and getattr(norm, name, None) is not None:
            setattr(layer, name, getattr(norm, name))
    if layer.running_mean is not None and norm.running_mean is not None:
        layer.running_mean = norm.running_mean
        if norm.num_batches_tracked is not None:
            layer.num_batches_tracked = norm.num_batches_tracked
        _set_statistics(layer, norm)
    if ours:
        layer.frozen = norm.frozen
    layer.train(norm.training)
    if not _is_fused(norm):
        return layer
    parts: Dict[str, nn.Module] = OrderedDict(norm=layer, drop=norm.drop, act=norm.act)
    return nn.Sequential(parts).train(norm.training)


def convert(
    module: nn.Module, spec: str = DEFAULT_SPEC, skip: Skip = None, *, eps: Optional[float] = None, **options: Any
) -> nn.Module:
    """Replaces every BatchNorm of a net, and every BatchOrtho layer of another spec, in place; returns the net.

    Scale, bias, running mean and count stay the objects they are, so an optimizer made before goes on. The variances
    are kept; correlations, which BatchNorm does not know, start as none: with ``BN`` the net computes what it did. A
    SyncBatchNorm becomes a BatchOrtho2d that is synchronised over the same group; a fused class as timm's
    BatchNormAct2d becomes a Sequential of ``norm``, ``drop`` and ``act``. Other subclasses with a forward of their
    own, and layers with hooks, are left as they are. Whitening all channels of a wide layer together costs C³ a step:
    ``ZCA(1e-5, group_size=64)`` whitens them in groups. One line in the log ("orthobatch") says what was done.

    Args:
        module: the net, or a BatchNorm.
        spec: of the layers.
        skip: a path or pattern ("layer4.*"), several, or a function of path and module.
        eps: ε of the layers; None: that of each BatchNorm.
        options: for the layers, such as ``running_average`` and ``sample_stride``.

    >>> net = orthobatch.convert(torchvision.models.resnet18(), "ZCA(1e-5, group_size=16)")
    """
    spec, _ = ops.with_eps(str(spec), eps)
    skips = _skips(skip)
    replaced: List[str] = []
    specs: List[str] = []
    skipped: List[str] = []
    left: List[str] = []
    made: Dict[int, nn.Module] = {}  # a BatchNorm that stands in two places stays one layer
    changes: List[Any] = []  # made once everything is known to work

    def layer_for(norm: Any, path: str) -> Optional[nn.Module]:
        if skips(path, norm):
            skipped.append(path)
            return None
        if isinstance(norm, _LAZY):
            raise ValueError(
                f"convert: expected BatchNorms that know their channels, but '{path}' is a "
                f"{type(norm).__name__}; run a batch through the net first"
            )
        why = _why_not(norm)
        if why:
            left.append(f"{path} ({why})")
            return None
        if id(norm) not in made:
            layer = made[id(norm)] = _like(norm, spec, eps, path, options)
            own = getattr(layer, "norm", layer).spec
            if own not in specs:
                specs.append(own)
        replaced.append(path or type(norm).__name__)
        return made[id(norm)]

    result = module
    if isinstance(module, _NORMS):
        result = layer_for(module, "") or module
    for parent_path, parent in () if isinstance(module, _NORMS) else module.named_modules():
        for child_name, child in parent._modules.items():
            if isinstance(child, _NORMS):
                path = f"{parent_path}.{child_name}" if parent_path else child_name
                layer = layer_for(child, path)
                if layer is not None:
                    changes.append((parent, child_name, layer))
    for parent, child_name, layer in changes:
        setattr(parent, child_name, layer)
    text = f"convert: {len(replaced)} layers are {' or '.join(specs) or spec} now"
    if replaced:
        text += f": {', '.join(replaced)}"
    if skipped:
        text += f"; skipped {', '.join(skipped)}"
    elif skip is not None:
        text += "; nothing to skip was found"
    if left:
        text += f"; left as they are: {', '.join(left)}"
    _log.log(logging.WARNING if left or not replaced else logging.INFO, text)
    return result


class norm_layer(functools.partial):
    """A spec as what ``norm_layer=`` arguments take: called with the channels it makes a BatchOrtho2d.

    Takes ``functools.partial`` and BatchNorm2d's arguments (``eps``, ``momentum``, …), which override the spec's. It is
    a ``functools.partial`` itself, because timm takes no other callable.

    >>> resnet18(norm_layer=orthobatch.norm_layer("ZCA(1e-5, group_size=16)"))
    >>> orthobatch.norm_layer("ZCA(1e-5)")(64, eps=1e-3).spec
    'ZCA(0.001)'
    """

    def __new__(cls, spec: str, **options: Any) -> norm_layer:
        return super().__new__(cls, BatchOrtho2d, spec=ops.with_eps(str(spec), None)[0], **options)

    def __call__(self, num_features: int, eps: Optional[float] = None, *args: Any, **options: Any) -> BatchOrtho2d:
        named = dict(zip(("momentum", "affine", "track_running_stats"), args))
        return BatchOrtho2d(num_features, **{**self.keywords, **named, "eps": eps, **options})

    def __repr__(self) -> str:
        return f"norm_layer({self.keywords['spec']!r})"

    def __reduce__(self) -> Any:
        return functools.partial(type(self), **self.keywords), ()


class _Named(norm_layer):
    """One that pickles by its name."""

    __name__: str

    def __new__(cls, name: str, spec: str, doc: str) -> _Named:
        out = super().__new__(cls, spec)
        out.__name__ = out.__qualname__ = name
        out.__doc__ = f"{doc} BatchNorm2d's arguments; equivalent to ``norm_layer({spec!r})``."
        return out

    def __reduce__(self) -> str:
        return self.__name__


bn = _Named("bn", "BN(1e-5)", "Batch normalization over maps.")
zca = _Named("zca", "ZCA(1e-5)", "Whitening that moves the data the least.")
zca16 = _Named("zca16", "ZCA(1e-5, group_size=16)", "ZCA in groups of 16 channels, for nets of any width.")
zca64 = _Named("zca64", "ZCA(1e-5, group_size=64)", "ZCA in groups of 64 channels.")
zcam = _Named("zcam", "ZCAM(1e-5)", "ZCA with its condition number held under 100.")
zcae = _Named("zcae", "ZCAE(1e-5)", "ZCA floored at the effective rank.")
ldl = _Named("ldl", "LDL(1e-5)", "Cholesky whitening.")
