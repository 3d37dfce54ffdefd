"""Folding: pairs joined for training, and layers gone from a net for inference."""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from ._library import ops
from .folded import FoldedConv1d, FoldedConv2d, FoldedConv3d, FoldedLinear, _Folded, is_plain
from .modules import BatchOrthoLayer

_CONVS: Dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_FOLDED: Dict[int, Any] = {1: FoldedConv1d, 2: FoldedConv2d, 3: FoldedConv3d}

# In-place operators have effects that users of their results do not show.
torch.fx.node._side_effectful_functions.update({torch.ops.orthobatch.track_, torch.ops.orthobatch.step_})


# ------------------------------------------------------------------------- who reads whose output


class _Tracer(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (BatchOrthoLayer, _Folded)) or super().is_leaf_module(m, module_qualified_name)


@dataclass
class _Place:
    """A BatchOrtho layer, what it alone reads, and what alone reads it; where those are modules."""

    path: str
    before: Optional[str] = None
    after: Optional[str] = None
    flattened: bool = False  # between it and `after`
    flatten: Optional[str] = None  # by that module


def _copies(model: nn.Module) -> Counter:
    """In how many places each module stands."""
    return Counter(id(m) for _, m in model.named_modules(remove_duplicate=False))


def _neighbours_by_trace(model: nn.Module) -> List[_Place]:
    # With the defaults of a forward's arguments, since a traced argument is never None.
    signature = inspect.signature(model.forward)
    defaults = {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}
    graph: Any = _Tracer().trace(model, concrete_args=defaults or None)
    modules: Dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
    stands = _copies(model)
    calls = Counter(id(modules[n.target]) for n in graph.nodes if n.op == "call_module")
    touched = {n.target.rpartition(".")[0] for n in graph.nodes if n.op == "get_attr"}

    def alone(node: Any) -> Optional[str]:
        """The path of a module that is called here and nowhere else, and does nothing but what its class does."""
        if not isinstance(node, torch.fx.Node) or node.op != "call_module":
            return None
        module = modules[node.target]
        usable = calls[id(module)] == 1 and stands[id(module)] == 1 and node.target not in touched
        usable = usable and is_plain(module, type(module))
        return node.target if usable and len(node.args) == 1 and not node.kwargs else None

    def is_flatten(node: Any) -> bool:
        if node.op == "call_module":
            m = modules[node.target]
            return isinstance(m, nn.Flatten) and m.start_dim == 1 and m.end_dim == -1
        flattens = node.target is torch.flatten if node.op == "call_function" else node.target == "flatten"
        return flattens and tuple(node.args[1:]) in ((1,), (1, -1)) and not node.kwargs

    places = []
    for node in graph.nodes:
        path = alone(node)
        if path is None or not isinstance(modules[path], BatchOrthoLayer):
            continue
        place = _Place(path)
        source = node.args[0]
        if isinstance(source, torch.fx.Node) and len(source.users) == 1:
            place.before = alone(source)
        if len(node.users) == 1:
            reader = next(iter(node.users))
            if is_flatten(reader) and len(reader.users) == 1:
                place.flattened = True
                place.flatten = alone(reader)
                reader = next(iter(reader.users))
            place.after = alone(reader)
        places.append(place)
    return places


def _neighbours(model: nn.Module, what: str, modes: Tuple[bool, ...]) -> List[_Place]:
    """Those that hold in every mode. The trace is of a copy: a forward may keep what it is given."""
    found: List[List[_Place]] = []
    try:
        for mode in modes:
            found.append(_neighbours_by_trace(copy.deepcopy(model).train(mode)))
    except Exception as error:  # whatever a user's forward may raise under a tracer
        first = str(error).split("\n")[0]
        warnings.warn(
            f"orthobatch.{what}: torch.fx cannot trace {type(model).__name__} ({first}), so nothing is known of what "
            "reads what; the layers stay by themselves",
            stacklevel=3,
        )
        return []
    return [place for place in found[0] if all(place in others for others in found[1:])]


def _replace(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    owner = model.get_submodule(parent)
    module.train(getattr(owner, name).training)
    setattr(owner, name, module)


# --------------------------------------------------------------------------------------- training


def fold_training(model: nn.Module, *, verbose: bool = True) -> nn.Module:
    """Joins every BatchOrtho layer with the convolution or linear layer that alone reads its output.

    In place; parameters stay the objects they were, so optimizers go on. The pair stands where the
    convolution stood, with children ``norm`` and ``conv`` (or ``linear``); an Identity stands where the layer
    was. Pairs are found with torch.fx, in training and in evaluation, with the defaults of the forward's
    arguments; modules with hooks or weight norms are left alone. Says on stderr what it joined unless
    ``verbose`` is False.
    """
    joined = []
    for place in _neighbours(model, "fold_training", (True, False)):
        if place.after is None:
            continue
        norm: Any = model.get_submodule(place.path)
        reader: Any = model.get_submodule(place.after)
        dims = norm.dims
        pair: Optional[_Folded] = None
        if type(reader) is _CONVS[dims] and not place.flattened:
            pair = _FOLDED[dims](norm, reader)
        elif type(reader) is nn.Linear and place.flatten is not None:
            pair = FoldedLinear(norm, reader)
            _replace(model, place.flatten, nn.Identity())
        elif type(reader) is nn.Linear and place.flattened and norm.sample_stride == 1:
            pair = FoldedLinear(norm, reader, flattened=True)
        if pair is None:
            continue
        _replace(model, place.after, pair)
        _replace(model, place.path, nn.Identity())
        joined.append(f"{place.path} and {place.after}")
    if verbose:
        print(f"orthobatch: {len(joined)} pairs joined{': ' if joined else ''}{', '.join(joined)}", file=sys.stderr)
    return model


# -------------------------------------------------------------------------------------- inference


class PointwiseAffine(nn.Module):
    """A·x + b over the channels of (N, C) or (N, C, L) input."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return F.linear(x, self.weight, self.bias)
        return F.conv1d(x, self.weight.unsqueeze(2), self.bias)


def _map_of(norm: Any) -> Tuple[Tensor, Tensor]:
    """P and q, double: norm(x) = P x + q in evaluation."""
    mean, statistic = norm.running_mean, norm._statistic()
    if mean is not None and mean.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"fold: expected a net in float or double, but {norm.description()} is {mean.dtype}")
    if mean is None or statistic is None:
        raise ValueError(
            f"fold: expected running statistics, but {norm.description()} keeps none; its output depends on the batch"
        )
    return ops.average_map(norm.weight, norm.bias, norm.skew, mean, statistic, norm.spec, norm._averages_transform)


def _apart(P: Tensor, groups: int) -> Optional[Tensor]:
    """The blocks of P by group, (groups, C/groups, C/groups); None where there is something between them."""
    n = P.size(0)
    if n % groups:
        return None
    width = n // groups
    tiles = P.view(groups, width, groups, width)
    blocks = torch.stack([tiles[g, :, g] for g in range(groups)])
    between = P.count_nonzero() - blocks.count_nonzero()
    return None if between > 0 else blocks


def _set(module: Any, weight: Tensor, bias: Tensor) -> None:
    old = module.weight
    module.weight = nn.Parameter(weight.to(old.dtype).contiguous(), requires_grad=old.requires_grad)
    module.bias = nn.Parameter(bias.to(old.dtype), requires_grad=old.requires_grad)


def _bias_of(module: Any, outputs: int) -> Tensor:
    if module.bias is None:
        return torch.zeros(outputs, dtype=torch.double)
    return module.bias.detach().double().cpu()


def _fold_behind(module: Any, P: Tensor, q: Tensor) -> bool:
    """P (module(x)) + q in the module's own weights."""
    weight = module.weight.detach().double().cpu()
    bias = _bias_of(module, weight.size(0))
    blocks = _apart(P, getattr(module, "groups", 1))
    if blocks is None:
        return False
    groups, width = blocks.size(0), blocks.size(1)
    _set(
        module,
        torch.bmm(blocks, weight.reshape(groups, width, -1)).reshape(weight.shape).to(module.weight.device),
        (P @ bias + q).to(module.weight.device),
    )
    return True


def _fold_before(module: Any, P: Tensor, q: Tensor) -> bool:
    """module(P x + q) in the module's own weights; not where zeros stand around P x + q."""
    if isinstance(module, nn.Linear):
        places = module.in_features // P.size(0)
        weight = module.weight.detach().double().cpu().view(module.out_features, P.size(0), places)
        bias = _bias_of(module, module.out_features) + torch.einsum("ocp,c->o", weight, q)
        folded = torch.einsum("ocp,cd->odp", weight, P).reshape(module.weight.shape)
        _set(module, folded.to(module.weight.device), bias.to(module.weight.device))
        return True
    pads = module.padding_mode == "zeros" and module.padding != "valid"
    if pads and module.padding != "same":
        pads = any(module.padding)
    if pads and bool(q.any()):
        return False
    blocks = _apart(P, module.groups)
    if blocks is None:
        return False
    groups, width = blocks.size(0), blocks.size(1)
    weight = module.weight.detach().double().cpu()
    apart = weight.reshape(groups, weight.size(0) // groups, width, -1)
    shares = torch.einsum("goct,gc->go", apart, q.view(groups, width)).reshape(-1)
    folded = torch.einsum("goct,gcd->godt", apart, blocks).reshape(weight.shape)
    device = module.weight.device
    _set(module, folded.to(device), (_bias_of(module, weight.size(0)) + shares).to(device))
    return True


def _with_hooks_of(norm: nn.Module, module: nn.Module) -> nn.Module:
    module._forward_hooks.update(norm._forward_hooks)
    module._forward_pre_hooks.update(norm._forward_pre_hooks)
    return module


def _plain(norm: Any, P: Tensor, q: Tensor) -> nn.Module:
    """The layer as a 1×1 convolution, in groups where they whiten alone."""
    like = norm.running_mean
    if norm.dims == 1:
        return _with_hooks_of(norm, PointwiseAffine(P.to(like), q.to(like)))
    n = norm.num_features
    group_size = ops.traits(norm.spec)[4]
    groups = 1
    if ops.traits(norm.spec)[2]:
        groups = n
    elif group_size and n % group_size == 0:
        groups = n // group_size
    blocks = _apart(P, groups)
    if blocks is None:  # a rotation behind the groups
        groups, blocks = 1, P.unsqueeze(0)
    conv = _CONVS[norm.dims](n, n, 1, groups=groups, device=like.device, dtype=like.dtype)
    _set(conv, blocks.reshape(conv.weight.shape).to(like.device), q.to(like.device))
    return _with_hooks_of(norm, conv)


def _fold_pair(pair: Any) -> nn.Module:
    P, q = _map_of(pair.norm)
    linear = isinstance(pair, FoldedLinear)
    reader = copy.deepcopy(pair.linear if linear else pair.conv)  # others may read with it too
    if _fold_before(reader, P, q):
        return nn.Sequential(nn.Flatten(1), reader) if linear and not pair.flattened else reader
    return nn.Sequential(_plain(pair.norm, P, q), reader)


def fold(model: nn.Module, *, verbose: bool = False) -> nn.Module:
    """A copy for inference without our layers: each is in the weights of the convolution or linear layer
    before or behind it, or a plain 1×1 convolution where it cannot be. It needs nothing of this package
    (BatchOrtho1d alone may leave a PointwiseAffine) and exports to TorchScript and ONNX.

    What reads what is found with torch.fx, with the defaults of the forward's arguments; of a net that it
    cannot trace, every layer becomes a 1×1 convolution.
    """
    out = copy.deepcopy(model).eval()
    merged, plain = 0, 0
    with torch.no_grad():
        if isinstance(out, _Folded):
            return _fold_pair(out).eval()
        if isinstance(out, BatchOrthoLayer):
            return _plain(out, *_map_of(out)).eval()
        for place in _neighbours(out, "fold", (False,)):
            norm: Any = out.get_submodule(place.path)
            P, q = _map_of(norm)
            before: Any = None if place.before is None else out.get_submodule(place.before)
            after: Any = None if place.after is None else out.get_submodule(place.after)
            conv = _CONVS[norm.dims]
            done = (type(before) is conv or _gives_channels(before, norm)) and _fold_behind(before, P, q)
            if not done and type(after) is (nn.Linear if place.flattened else conv):
                done = _fold_before(after, P, q)
            if done:
                merged += 1
                _replace(out, place.path, nn.Identity())
        plain_ones: Dict[int, nn.Module] = {}  # a layer in two places stays one
        for path, module in list(out.named_modules(remove_duplicate=False)):
            inside_pair = isinstance(out.get_submodule(path.rpartition(".")[0]), _Folded)
            if isinstance(module, BatchOrthoLayer) and not inside_pair:
                if id(module) not in plain_ones:
                    plain_ones[id(module)] = _plain(module, *_map_of(module))
                    plain += 1
                _replace(out, path, plain_ones[id(module)])
        for path, module in list(out.named_modules(remove_duplicate=False)):
            if isinstance(module, _Folded):
                _replace(out, path, _fold_pair(module))
                merged += 1
    if verbose:
        print(f"orthobatch: {merged} layers are in their neighbours' weights, {plain} are 1×1", file=sys.stderr)
    return out.eval()


def _gives_channels(module: Any, norm: BatchOrthoLayer) -> bool:
    """Whether a Linear's outputs are the norm's channels: they are where the norm's input was (N, C)."""
    return type(module) is nn.Linear and norm.dims == 1 and norm._rank == 2
