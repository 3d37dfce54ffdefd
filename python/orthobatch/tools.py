"""What is done to the layers of a net, and what they say of themselves."""

from __future__ import annotations

import contextlib
import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ._library import ops
from .modules import BatchOrthoLayer


def layers_of(model: nn.Module) -> List[Tuple[str, BatchOrthoLayer]]:
    """The BatchOrtho layers of a net with their paths ("block2.norm"), in its order."""
    return [(path, m) for path, m in model.named_modules() if isinstance(m, BatchOrthoLayer)]


def name_layers(model: nn.Module) -> nn.Module:
    """Gives each BatchOrtho layer of a net its path as its ``name``, so that messages say which one they mean.

    ``convert``, ``update_statistics`` and ``auto_update_statistics`` do so for layers without a name.
    """
    for path, layer in layers_of(model):
        layer.name = path
    return model


# ------------------------------------------------------------------------------------- statistics


def freeze(model: nn.Module, *, parameters: bool = False) -> nn.Module:
    """The layers evaluate with their running statistics from now on, whatever ``train()`` says.

    Equivalent to ``layer.eval()`` for each, and lasts. With ``parameters`` their scale, bias and rotation stop learning
    too.

    >>> orthobatch.freeze(net).train()
    """
    for _, layer in layers_of(model):
        layer._average()  # that there is one
    for _, layer in layers_of(model):
        layer.frozen = True
        if parameters:
            for name, p in layer.named_parameters(recurse=False):
                if p.requires_grad:
                    p.requires_grad_(False)
                    layer._stopped = layer._stopped + [name]
    return model


def unfreeze(model: nn.Module) -> nn.Module:
    """Undoes ``freeze``: the layers follow ``train()`` again, and the parameters that it stopped learn."""
    for _, layer in layers_of(model):
        layer.frozen = False
        for name in layer._stopped:
            getattr(layer, name).requires_grad_(True)
        layer._stopped = []
    return model


@contextlib.contextmanager
def fresh_statistics(model: nn.Module) -> Iterator[None]:
    """The running statistics as new, and averaging what the net is called with meanwhile, all batches equally.

    Everything but our layers is in evaluation, so dropout is off, and there are no gradients. Where it fails, the
    statistics are as before.
    """
    tracked = [layer for _, layer in layers_of(model) if layer.running_mean is not None]
    for path, layer in layers_of(model):  # for what may go wrong
        layer.name = layer.name or path
    modes = {m: m.training for m in model.modules()}
    options = [(layer.momentum, layer.frozen) for layer in tracked]
    before = [[b.clone() for b in layer.buffers()] for layer in tracked]
    try:
        model.eval()
        for layer in tracked:
            layer.reset_running_stats()
            layer.momentum, layer.frozen, layer.training = None, False, True
        with torch.no_grad():
            yield
        if tracked and not any(int(layer.num_batches_tracked) for layer in tracked):
            raise ValueError("update_statistics: expected at least one batch with samples, got none")
    except BaseException:
        for layer, old in zip(tracked, before):
            for buffer, value in zip(layer.buffers(), old):
                buffer.copy_(value)
        raise
    finally:
        for layer, (momentum, frozen) in zip(tracked, options):
            layer.momentum, layer.frozen = momentum, frozen
        for module, mode in modes.items():
            module.training = mode


def update_statistics(
    model: nn.Module, loader: Iterable[Any], *, batches: Optional[int] = None, device: Optional[Any] = None
) -> int:
    """Computes the running statistics again with the present weights, all batches counting the same.

    Everything but our layers is in evaluation meanwhile, so dropout is off. Returns the number of batches; where it
    fails, the statistics are as before.

    Args:
        model: the net.
        loader: batches; each a tensor, a sequence whose first element is one, or a dict of the net's arguments.
        batches: take no more than these.
        device: where batches go first.

    >>> orthobatch.update_statistics(net, loader, batches=100)
    """
    if batches is not None and batches < 1:
        raise ValueError(f"update_statistics: expected one batch or more, got {batches}")
    seen = 0
    with fresh_statistics(model):
        for batch in itertools.islice(loader, batches):
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            x = x if device is None else tree_map(lambda t: t.to(device) if isinstance(t, Tensor) else t, x)
            model(**x) if isinstance(x, Mapping) else model(x)
            seen += 1
    return seen


def covariance(x: Tensor) -> Tensor:
    """Covariance of the channels of an (N, C, …) tensor over all samples, C×C, double.

    Equivalent to ``torch.cov(x.transpose(0, 1).flatten(1).double(), correction=0)``.
    """
    return ops.covariance(x)


def whiteness_error(z: Tensor) -> float:
    """max |covariance(z) − I| over all pairs of channels of an (N, C, …) tensor: 0 where it is white."""
    return ops.whiteness_error(z)


# ---------------------------------------------------------------------------------------- summary


@dataclass
class LayerSummary:
    """A layer as of its last batch in training."""

    name: str
    spec: str
    num_features: int
    samples: int = 0  # of the last batch; 0: none yet, and the rest is 0
    condition_number: float = 0.0  # of the conditioned covariance
    effective_rank: float = 0.0
    floored: int = 0
    null: int = 0
    exchanges: int = 0
    unfolded: int = 0  # batches so far that a folded layer could not fold
    empty: int = 0  # directions with less variance than ε, divided by about √ε


class Summary(List[LayerSummary]):
    """Every layer of a net; prints as a table."""

    def __str__(self) -> str:
        header = ["layer", "spec", "channels", "condition", "eff.rank", "floored", "empty", "exchanged", "unfolded"]
        rows = [
            [s.name, s.spec, str(s.num_features), f"{s.condition_number:.3g}", f"{s.effective_rank:.2f}"]
            + [str(v) for v in (s.floored, s.null + s.empty, s.exchanges, s.unfolded)]
            for s in self
        ]
        return _table([header] + rows, left=2)


def summary(model: nn.Module) -> Summary:
    """What each BatchOrtho layer of a net saw in its last batch of training.

    >>> print(orthobatch.summary(net))
    """
    out = Summary()
    for path, layer in layers_of(model):
        s = LayerSummary(path, layer.spec, layer.num_features)
        if layer._tape is not None:
            conditioned = ops.conditioned(layer._tape, layer.weight, layer._text)
            s.samples, s.floored, s.null, s.exchanges, _, s.empty = (int(v) for v in layer._tape[:6])
            s.condition_number = ops.condition_number(*conditioned)
            s.effective_rank = ops.effective_rank(conditioned[0], 1.0, conditioned[1])
            s.unfolded = layer.unfolded
        out.append(s)
    return out


def _table(rows: List[List[str]], left: int = 1) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------- methods


@dataclass
class Argument:
    """An argument that a method's spec takes."""

    name: str
    default: float
    range: str
    meaning: str


@dataclass
class Method:
    """A method, as specs name it. Every method also takes group_size."""

    name: str
    formula: str
    description: str
    paper: str
    arguments: List[Argument] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(a.name for a in self.arguments)}): {self.description}; T = {self.formula}"


def methods() -> List[Method]:
    """Every method there is, with its arguments.

    >>> print(*orthobatch.methods(), sep="\\n")
    """
    texts = ops.methods()
    out = []
    for k in range(0, len(texts), 4):
        method = Method(*texts[k : k + 4])
        words, defaults = ops.method_arguments(method.name)
        for j, default in enumerate(defaults):
            name, allowed, meaning = words[3 * j : 3 * j + 3]
            method.arguments.append(Argument(name, default, allowed, meaning))
        out.append(method)
    return out


@dataclass
class CheckRow:
    """The gradient with respect to one tensor, against central differences."""

    of: str
    verdict: str  # "ok", "off", "no gradient", "unresolved"
    error: float
    paper_error: Optional[float]
    resolution: float


@dataclass
class CheckResult:
    spec: str
    rows: List[CheckRow]
    why_no_gradient: List[str]

    def __bool__(self) -> bool:
        """Whether every gradient that exists was found right."""
        return all(row.verdict in ("ok", "no gradient") for row in self.rows)

    def __str__(self) -> str:
        table = [["gradient of", "exact", "paper", "resolved to", "verdict"]]
        for row in self.rows:
            paper = "-" if row.paper_error is None else f"{row.paper_error:.1e}"
            table.append([row.of, f"{row.error:.1e}", paper, f"{row.resolution:.1e}", row.verdict])
        lines = [self.spec, _table(table)]
        return "\n".join(lines + [f"No gradient exists here: {why}." for why in self.why_no_gradient])


def check(
    spec: str,
    spectrum: str = "distinct",
    *,
    num_features: int = 6,
    samples: int = 24,
    gap: float = 1e-6,
    at_start: bool = False,
    seed: int = 1,
    tolerance: float = 1e-7,
) -> CheckResult:
    """A layer's gradients against central differences, in double, on data with a chosen spectrum.

    As ``torch.autograd.gradcheck``, with what each gradient could be resolved to. Prints as a table.

    Args:
        spec: the layer.
        spectrum: "distinct", "close" (eigenvalues in pairs, ``gap`` apart), "equal" or "deficient".
        num_features, samples: size of the data.
        at_start: parameters as a new layer has them.
        seed: of the data.
        tolerance: relative error that is still "ok".

    >>> bool(orthobatch.check("ZCA(1e-5)", "close"))
    True
    """
    if not tolerance > 0:
        raise ValueError(f"check: expected a tolerance above 0, got {tolerance}")
    stop = torch.zeros((), dtype=torch.bool)
    with ThreadPoolExecutor(1) as thread:  # while this one waits, it can be interrupted
        work = thread.submit(ops.check, str(spec), spectrum, num_features, samples, gap, at_start, seed, tolerance, stop)
        try:
            words, numbers, why = work.result()
        finally:
            stop.fill_(True)
    rows = []
    for k in range(len(words) // 2):
        error, paper, resolution = numbers[3 * k : 3 * k + 3]
        rows.append(CheckRow(words[2 * k], words[2 * k + 1], error, None if math.isnan(paper) else paper, resolution))
    return CheckResult(ops.with_eps(str(spec), None)[0], rows, list(why))
