"""Folding: pairs joined for training, and layers gone from a net for inference."""

from __future__ import annotations

import copy
import dis
import inspect
import logging
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
from .folded import CONVOLUTIONS, Folded, FoldedConv1d, FoldedConv2d, FoldedConv3d, FoldedLinear, is_plain
from .modules import BatchOrthoLayer

_log = logging.getLogger("orthobatch")
_FOLDED: Dict[int, Any] = {1: FoldedConv1d, 2: FoldedConv2d, 3: FoldedConv3d}
_TRANSPOSED: Dict[int, Any] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}

# In-place operators have effects that users of their results do not show.
torch.fx.node._side_effectful_functions.update({torch.ops.orthobatch.track_, torch.ops.orthobatch.step_})


# ------------------------------------------------------------------------- who reads whose output


class _Proxy(torch.fx.Proxy):
    def __iter__(self) -> Any:
        """``n, c, h, w = x.size()``, which torch 1.13 cannot follow with Python 3.11."""
        caller = sys._getframe(1)
        for instruction in dis.get_instructions(caller.f_code):
            if instruction.offset == caller.f_lasti and instruction.opname == "UNPACK_SEQUENCE":
                return iter([self[k] for k in range(instruction.argval)])
        return self.tracer.iter(self)


class _Tracer(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, (BatchOrthoLayer, Folded)) or super().is_leaf_module(m, module_qualified_name)

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        return _Proxy(node, self)


@dataclass
class _Place:
    """A BatchOrtho layer, what it alone reads, and what alone reads it; where those are modules."""

    path: str
    before: Optional[str] = None
    after: Optional[str] = None
    flattened: bool = False  # between it and `after`
    flatten: Optional[str] = None  # by that module


def _neighbours_by_trace(model: nn.Module) -> List[_Place]:
    # With the defaults of a forward's arguments, since a traced argument is never None.
    signature = inspect.signature(model.forward)
    defaults = {p.name: p.default for p in signature.parameters.values() if p.default is not p.empty}
    graph: Any = _Tracer().trace(model, concrete_args=defaults or None)
    modules: Dict[str, Any] = dict(model.named_modules(remove_duplicate=False))
    stands = Counter(id(m) for m in modules.values())
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
    try:
        found = [_neighbours_by_trace(copy.deepcopy(model).train(mode)) for mode in modes]
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


def fold_training(model: nn.Module) -> nn.Module:
    """Joins every BatchOrtho layer with the convolution or linear layer that alone reads its output.

    In place; outputs stay the same up to rounding, parameters the objects they were, so optimizers go on. A pair has
    the path of the convolution or linear layer, with children ``norm`` and ``conv`` (or ``linear``), and an Identity
    stands where the layer was; a state of the net from before loads into it. Pairs are found with torch.fx, in training and in evaluation, with the defaults of the
    forward's arguments; modules with hooks or weight norms are left alone. ``unfold_training`` undoes it.

    >>> net = nn.Sequential(nn.ReLU(), orthobatch.BatchOrtho2d(8), nn.Conv2d(8, 16, 3))
    >>> orthobatch.fold_training(net)[2]  # FoldedConv2d
    """
    joined = []
    for place in _neighbours(model, "fold_training", (True, False)):
        if place.after is None:
            continue
        norm: Any = model.get_submodule(place.path)
        reader: Any = model.get_submodule(place.after)
        pair: Optional[Folded] = None
        if type(reader) is CONVOLUTIONS[norm._dims] and not place.flattened:
            pair = _FOLDED[norm._dims](norm, reader)
        elif type(reader) is nn.Linear and place.flatten is not None:
            pair = FoldedLinear(norm, reader)
            _replace(model, place.flatten, nn.Identity())
        elif type(reader) is nn.Linear and place.flattened and norm.sample_stride == 1:
            pair = FoldedLinear(norm, reader, flattened=True)
        if pair is None:
            continue
        pair._origin = [place.path] + ([place.flatten] if place.flatten else [])
        pair._place = place.after
        _replace(model, place.after, pair)
        _replace(model, place.path, nn.Identity())
        joined.append(f"{place.path} and {place.after}")
    hooks = model._load_state_dict_pre_hooks.values()
    if joined and not any(getattr(hook, "hook", hook) is _take_unfolded for hook in hooks):
        model._register_load_state_dict_pre_hook(_take_unfolded, with_module=True)
    _log.info("fold_training: %d pairs joined%s%s", len(joined), ": " if joined else "", ", ".join(joined))
    return model


def _take_unfolded(model: nn.Module, state: Dict[str, Any], prefix: str, *_: Any) -> None:
    """A state of the net as it was before its pairs were joined: its keys become those of the pairs."""
    metadata = getattr(state, "_metadata", None) or {}
    for pair in model.modules():
        if not isinstance(pair, Folded) or not pair._origin:
            continue
        norm, own = prefix + pair._origin[0] + ".", prefix + pair._place + "."
        if any(key.startswith(own + "norm.") for key in state) or not any(key.startswith(norm) for key in state):
            continue
        reader = own + ("linear." if isinstance(pair, FoldedLinear) else "conv.")
        for key in list(state):
            if key.startswith(norm):
                state[own + "norm." + key[len(norm) :]] = state.pop(key)
            elif key.startswith(own):
                state[reader + key[len(own) :]] = state.pop(key)
        if norm[:-1] in metadata:
            metadata.setdefault(own + "norm", metadata[norm[:-1]])


def unfold_training(model: nn.Module) -> nn.Module:
    """Undoes ``fold_training``, in place: every module is where it was, and parameters stay the objects they are.

    A pair that was made by hand becomes a Sequential of its two modules.

    >>> orthobatch.unfold_training(orthobatch.fold_training(net))  # net as it was
    """
    if isinstance(model, Folded):
        return _taken_apart(model)
    for path, pair in list(model.named_modules()):
        if not isinstance(pair, Folded):
            continue
        if pair._origin:
            _replace(model, pair._origin[0], pair.norm)
            for flatten in pair._origin[1:]:
                _replace(model, flatten, nn.Flatten())
            _replace(model, path, _consumer_of(pair))
        else:
            _replace(model, path, _taken_apart(pair))
    return model


def _consumer_of(pair: Any) -> Any:
    return pair.linear if isinstance(pair, FoldedLinear) else pair.conv


def _taken_apart(pair: Any, norm: Optional[nn.Module] = None) -> nn.Module:
    """consumer(norm(x)) as a Sequential."""
    parts = [norm or pair.norm, _consumer_of(pair)]
    if isinstance(pair, FoldedLinear):
        parts.insert(1, nn.Flatten())
        if pair.flattened:
            parts.insert(0, nn.Unflatten(1, tuple(pair._shape)))
    return nn.Sequential(*parts).train(pair.training)


# -------------------------------------------------------------------------------------- inference


class PointwiseAffine(nn.Module):
    """Equivalent to ``F.linear(x, weight, bias)`` over the channels of (N, C) or (N, C, L) input."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return F.linear(x, self.weight, self.bias)
        return F.conv1d(x, self.weight.unsqueeze(2), self.bias)


_Map = List[Tensor]  # of `average_map`


def _map_of(norm: BatchOrthoLayer) -> _Map:
    return ops.average_map(norm.weight, norm.bias, norm.skew, *norm._average(), norm._text)


def _set(module: Any, folded: List[Tensor]) -> bool:
    """Gives a module its weight and bias; not where there are none."""
    if folded:
        old = module.weight
        for name, value in zip(("weight", "bias"), folded):
            value = value.reshape(old.shape if name == "weight" else -1).to(old).contiguous()
            setattr(module, name, nn.Parameter(value, requires_grad=old.requires_grad))
    return bool(folded)


def _fold_behind(module: Any, norm: BatchOrthoLayer, map: _Map) -> bool:
    """norm(module(x)) in the module's own weights."""
    transposed = type(module) is _TRANSPOSED[norm._dims]
    # A Linear's outputs are the norm's channels where the norm's input was (N, C).
    linear = type(module) is nn.Linear and norm._dims == 1 and norm._rank == 2
    if not (transposed or linear or type(module) is CONVOLUTIONS[norm._dims]):
        return False
    return _set(module, ops.fold_behind(map, module.weight, module.bias, getattr(module, "groups", 1), transposed))


def _fold_before(module: Any, map: _Map) -> bool:
    """module(norm(x)) in the module's own weights; not where zeros stand around norm(x)."""
    padding = getattr(module, "padding", "valid")
    pads = padding == "same" or (padding != "valid" and any(padding))
    zeros = pads and module.padding_mode == "zeros"
    weight = module.weight
    if isinstance(module, nn.Linear):  # of (C, places), flattened
        weight = weight.view(weight.size(0), map[0].size(0), -1)
    return _set(module, ops.fold_before(map, weight, module.bias, getattr(module, "groups", 1), zeros))


def _plain(norm: Any, map: _Map) -> nn.Module:
    """The layer as a 1×1 convolution, in groups where they whiten alone; as two where that is more exact."""
    like, n = norm.running_mean, norm.num_features
    parts = ops.fold_alone(map)
    made: List[nn.Module] = []
    for weight, bias in zip(parts[::2], parts[1::2]):
        width = weight.size(1)
        if norm._dims == 1:
            made.append(PointwiseAffine(torch.block_diag(*weight.split(width)).to(like), bias.to(like)))
        else:
            conv = CONVOLUTIONS[norm._dims](n, n, 1, groups=n // width, device=like.device, dtype=like.dtype)
            _set(conv, [weight, bias])
            made.append(conv)
    module = made[0] if len(made) == 1 else nn.Sequential(*made)
    module._forward_hooks.update(norm._forward_hooks)
    module._forward_pre_hooks.update(norm._forward_pre_hooks)
    return module


def _fold_pair(pair: Any) -> nn.Module:
    map = _map_of(pair.norm)
    reader = copy.deepcopy(_consumer_of(pair))  # others may read with it too
    if not _fold_before(reader, map):
        return _taken_apart(pair, _plain(pair.norm, map))
    return nn.Sequential(nn.Flatten(), reader) if isinstance(pair, FoldedLinear) and not pair.flattened else reader


@torch.no_grad()
def fold(model: nn.Module) -> nn.Module:
    """A copy for inference without our layers, equivalent to ``copy.deepcopy(model).eval()`` up to rounding.

    Each layer is in the weights of the convolution (transposed or not) or linear layer before or behind it, or a plain
    1×1 convolution where it cannot be; where P x + q would lose digits, the mean is taken off by a convolution before
    that. The copy needs nothing of this package (BatchOrtho1d alone may leave a PointwiseAffine) and exports to
    TorchScript and ONNX. What reads what is found with torch.fx, with the defaults of the forward's arguments; of a
    net that it cannot trace, every layer becomes a 1×1 convolution.

    >>> plain = orthobatch.fold(net)
    """
    out = copy.deepcopy(model).eval()
    merged = 0
    if isinstance(out, Folded):
        return _fold_pair(out).eval()
    if isinstance(out, BatchOrthoLayer):
        return _plain(out, _map_of(out)).eval()
    for place in _neighbours(out, "fold", (False,)):
        norm: Any = out.get_submodule(place.path)
        map = _map_of(norm)
        before: Any = None if place.before is None else out.get_submodule(place.before)
        after: Any = None if place.after is None else out.get_submodule(place.after)
        reads = type(after) is (nn.Linear if place.flattened else CONVOLUTIONS[norm._dims])
        if _fold_behind(before, norm, map) or (reads and _fold_before(after, map)):
            merged += 1
            _replace(out, place.path, nn.Identity())
    plain: Dict[int, nn.Module] = {}  # a layer in two places stays one
    for path, module in list(out.named_modules(remove_duplicate=False)):
        if isinstance(module, BatchOrthoLayer) and not isinstance(out.get_submodule(path.rpartition(".")[0]), Folded):
            if id(module) not in plain:
                plain[id(module)] = _plain(module, _map_of(module))
            _replace(out, path, plain[id(module)])
    for path, module in list(out.named_modules(remove_duplicate=False)):
        if isinstance(module, Folded):
            _replace(out, path, _fold_pair(module))
            merged += 1
    _log.info("fold: %d layers are in their neighbours' weights, %d are 1×1 convolutions", merged, len(plain))
    return out.eval()
