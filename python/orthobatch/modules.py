"""BatchOrtho1d, BatchOrtho2d, BatchOrtho3d: modules that stand where BatchNorm1d/2d/3d stood."""

import operator
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.fx
from torch import Tensor, nn

from ._library import DEFAULT_SPEC, ops
from .processes import Group

try:  # torch 2
    from torch.compiler import is_compiling as _is_compiling
except ImportError:

    def _is_compiling() -> bool:
        return False


_said: List[str] = []


def _say_once(text: str) -> None:
    if text and text not in _said:
        _said.append(text)
        warnings.warn(f"orthobatch: {text}", stacklevel=4)


def _exact_type(device: Optional[Any]) -> torch.dtype:
    """Double, or float on a device that has none."""
    if device is None or ops.has_double(torch.device(device)):
        return torch.double
    _say_once(f"{torch.device(device).type} has no double: running statistics there are float. Said once.")
    return torch.float


class BatchOrthoLayer(nn.Module):
    """What BatchOrtho1d, 2d and 3d share; use those.

    Parameters: ``weight`` (γ; none in specs that end in ``->W``), ``bias``, ``skew`` (the rotation of specs with
    ``->W``). Buffers: ``running_mean``, then ``running_var`` (BN, of size C), ``running_cov`` or
    ``running_transform`` (C×C, or (groups, g, g) with ``group_size=g``, double), of a smaller last group
    ``running_cov_last`` or ``running_transform_last``, and ``num_batches_tracked``. Names, shapes and types are those
    of the C++ layers.
    """

    _version = 1
    _exact = ("running_cov", "running_cov_last", "running_transform", "running_transform_last", "num_batches_tracked")
    _in_text = ("num_features", "spec", "sample_stride", "running_average", "name")
    _dims = 0

    momentum: Optional[float]
    _alone: List[int]  # no convolution consumes the output

    def __init__(
        self, num_features: int, spec: str = DEFAULT_SPEC, momentum: Optional[float] = 0.1, affine: bool = True,
        track_running_stats: bool = True, running_average: str = "covariance", device: Optional[Any] = None,
        dtype: Optional[torch.dtype] = None, *, eps: Optional[float] = None, bias: bool = True, sample_stride: int = 1,
        process_group: Optional[Any] = None, name: str = "",
    ) -> None:  # fmt: skip
        super().__init__()
        kind = type(self).__name__
        if momentum is not None and not 0 <= momentum <= 1:
            raise ValueError(f"{kind}: expected a momentum from 0 to 1, got {momentum}")
        if running_average not in ("covariance", "transform"):
            raise ValueError(f"{kind}: expected running_average 'covariance' or 'transform', got {running_average!r}")
        if not isinstance(name, str):
            raise TypeError(f"{kind}: expected a name, got {name!r}")
        self.num_features = n = operator.index(num_features)
        self.spec, self.eps = ops.with_eps(str(spec), eps)
        self.momentum = None if momentum is None else float(momentum)
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.running_average = running_average
        self.sample_stride = operator.index(sample_stride)
        self.name = name
        self.frozen = False
        self.process_group = process_group
        self.unfolded = 0
        self._alone = []
        self._tape: Optional[Tensor] = None  # of the last batch in training
        self._rank = 0  # of the last input in training; 0: not known
        self._warned = False
        self._stopped: List[str] = []  # parameters that `freeze` stopped
        self._text = self._layer_text()

        has_scale, has_rotation, per_channel, _, _ = ops.traits(self.spec)
        for text in ops.advice(self._text):
            _say_once(text)
        blocks, last = ops.statistic_sizes(self._text)
        for label, size, present in (
            ("weight", n, affine and has_scale),
            ("bias", n, affine and bias),
            ("skew", ops.skew_size(n), has_rotation),
        ):
            value = nn.Parameter(torch.empty(size, device=device, dtype=dtype)) if present else None
            self.register_parameter(label, value)
        transform = running_average == "transform"
        for label, sizes, present in (
            ("running_mean", [n], True),
            ("running_var", blocks, per_channel and not transform),
            ("running_cov", blocks, not per_channel and not transform),
            ("running_cov_last", last, bool(last) and not transform),
            ("running_transform", blocks, transform),
            ("running_transform_last", last, bool(last) and transform),
            ("num_batches_tracked", [], True),
        ):
            kind_of = dtype if label not in self._exact else _exact_type(device) if sizes else torch.long
            present = present and track_running_stats
            self.register_buffer(label, torch.empty(sizes, device=device, dtype=kind_of) if present else None)
        self.reset_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "process_group":
            value = Group.of(value)
            self.__dict__["synchronized"] = value is not None
        super().__setattr__(name, value)
        if "_text" in self.__dict__ and (name in self._in_text or name == "eps"):
            if name in ("spec", "eps"):
                self.__dict__["spec"], self.__dict__["eps"] = ops.with_eps(self.spec, value if name == "eps" else None)
            self.__dict__["_text"] = self._layer_text()

    def _layer_text(self, group: int = 0) -> str:
        transform = self.running_average == "transform"
        return ops.layer(self._dims, self.num_features, self.spec, self.sample_stride, transform, group, self.name)

    # ------------------------------------------------------------------------------- forward

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            if isinstance(x, torch.fx.Proxy):  # a leaf of whatever is traced, as BatchNorm is
                leaf = leaf_of(self, x)
                if leaf is not None:
                    return leaf
        return self._run(x, None, None, None, self._alone)

    def _run(
        self, x: Tensor, read: Optional[Tensor], weight: Optional[Tensor], bias: Optional[Tensor], consumer: List[int]
    ) -> Tensor:
        """The layer, with the convolution or linear layer that consumes its output where that is folded."""
        mean = self.running_mean
        statistic = self.running_cov
        last = self.running_cov_last
        if statistic is None:
            statistic = self.running_var
        if statistic is None:
            statistic = self.running_transform
            last = self.running_transform_last
        layer = self._text
        training = self.training and not self.frozen
        if mean is not None and statistic is not None and not training:
            return torch.ops.orthobatch.evaluate(
                x, self.weight, self.bias, self.skew, mean, statistic, last, layer, read, weight, bias, consumer
            )
        if training and self.synchronized:
            layer = self._text_in_group()
        out = torch.ops.orthobatch.step_(
            x, self.weight, self.bias, self.skew, mean, statistic, last, self.num_batches_tracked, self.momentum,
            layer, read, weight, bias, consumer,
        )  # fmt: skip
        if not torch.jit.is_scripting():
            self._note(x, out[1])
        return out[0]

    @torch.jit.unused
    def _text_in_group(self) -> str:
        assert self.process_group is not None
        return self._layer_text(self.process_group.number())

    @torch.jit.unused
    def _note(self, x: Any, tape: Any) -> None:
        """Keeps what ``summary`` shows, where there are values to keep, and warns once."""
        if type(tape) is not Tensor or _is_compiling() or torch._C._get_tracing_state() is not None:
            return
        try:
            samples, _, null, _, unfolded, empty = tape.narrow(0, 0, 6).tolist()
        except (RuntimeError, NotImplementedError):  # meta tensors and those of functorch: no values
            return
        if samples == 0:
            return
        own = self.__dict__
        own["_tape"] = tape
        own["_rank"] = x.dim()
        if unfolded:
            own["unfolded"] = self.unfolded + 1
        if (null or empty or self.sample_stride > 1) and not self._warned:
            text = ops.warning(tape, self._text)
            if text:
                own["_warned"] = True
                warnings.warn(text, stacklevel=6)

    def description(self) -> str:
        """BatchOrtho2d(64, "ZCA(1e-5)"), with the name where it has one."""
        return self._text

    # --------------------------------------------------------------------------------- state

    def _average(self) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """The running mean, the statistic that T comes from, and that of a smaller last group."""
        transform = self.running_average == "transform"
        last = self.running_transform_last if transform else self.running_cov_last
        for statistic in (self.running_var, self.running_cov, self.running_transform):
            if statistic is not None and self.running_mean is not None:
                return self.running_mean, statistic, last
        raise ValueError(f"expected running statistics, but {self._text} keeps none; its output depends on the batch")

    @torch.no_grad()
    def reset_running_stats(self) -> None:
        """Running mean to 0, covariance (or transform) to the identity, no batches tracked."""
        for label, t in self._buffers.items():
            if t is not None and label in ("running_mean", "num_batches_tracked"):
                t.zero_()
            elif t is not None:
                t.copy_(torch.eye(t.size(-1), dtype=t.dtype, device=t.device) if t.dim() > 1 else torch.ones_like(t))

    def reset_parameters(self) -> None:
        """γ to 1, bias and skew to 0, and the running statistics as new."""
        self.reset_running_stats()
        for label, p in self._parameters.items():
            if p is not None:
                nn.init.constant_(p, 1 if label == "weight" else 0)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "BatchOrthoLayer":
        """As torch's, but what is double stays double through float(), half() and to(), where a device has double."""
        before = {key: self._buffers[key] for key in self._exact if self._buffers.get(key) is not None}

        def where_there_is_double(t: Tensor) -> Tensor:
            try:
                return fn(t)
            except TypeError:
                if t.dtype != torch.double:
                    raise
                return fn(t.float())

        super()._apply(where_there_is_double, *args, **kwargs)
        for key, old in before.items():
            new = self._buffers[key]
            if new is not None and old is not None:
                wanted = _exact_type(new.device) if old.is_floating_point() else old.dtype
                if new.dtype != wanted:
                    self._buffers[key] = old.to(new.device, wanted)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None and prefix[:-1] in metadata:
            metadata[prefix[:-1]]["spec"] = self.spec

    def _load_from_state_dict(
        self, state_dict: Dict[str, Any], prefix: str, local_metadata: Dict[str, Any], strict: bool,
        missing_keys: List[str], unexpected_keys: List[str], error_msgs: List[str],
    ) -> None:  # fmt: skip
        who = prefix[:-1] or type(self).__name__
        spec, version = local_metadata.get("spec"), local_metadata.get("version") or 0
        if spec is None:
            self._take_batch_norm(state_dict, prefix)
        elif version > self._version:
            error_msgs.append(f"{who}: expected a state of version {self._version} or earlier, got {version}")
            return
        elif not _same_state(spec, self.spec):
            error_msgs.append(f"{who}: expected a state of {self.spec}, got one of {spec}; the layer is unchanged")
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _take_batch_norm(self, state: Dict[str, Any], prefix: str) -> None:
        """A state of torch's BatchNorm, of C++, or bare: what a BatchNorm does not know is as `convert` has it."""
        if self.num_batches_tracked is not None:
            state.setdefault(prefix + "num_batches_tracked", torch.tensor(0, dtype=torch.long))
        variance = state.get(prefix + "running_var")
        wanted = {key: t for key, t in self._buffers.items() if t is not None and t.dim() > 1}
        if variance is None or not wanted or variance.shape != (self.num_features,):
            return
        del state[prefix + "running_var"]
        weight = state.get(prefix + "weight")
        if self.weight is None:
            state.pop(prefix + "weight", None)
        if self.skew is not None:
            state.setdefault(prefix + "skew", torch.zeros_like(self.skew))
        for key, value in zip(wanted, ops.initial(variance, weight, self._text)):
            state[prefix + key] = value
        _say_once("a BatchNorm's state was loaded: its variances are kept, the correlations start as none. Said once.")

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_tape": None}

    def extra_repr(self) -> str:
        parts = [f'{self.num_features}, "{self.spec}"', f"momentum={self.momentum}"]
        for option, default in (
            ("affine", True), ("track_running_stats", True), ("running_average", "covariance"), ("sample_stride", 1)
        ):  # fmt: skip
            if getattr(self, option) != default:
                parts.append(f"{option}={getattr(self, option)!r}")
        return ", ".join(parts + [word for word in ("frozen", "synchronized") if getattr(self, word)])


def leaf_of(module: nn.Module, x: Any) -> Any:
    """A call of the module in what torch.fx traces; None where the module itself is traced."""
    try:
        path = x.tracer.path_of_module(module)
    except (AttributeError, NameError):  # a tracer of another kind
        return None
    return x.tracer.create_proxy("call_module", path, (x,), {}) if path else None


def _same_state(spec: str, own: str) -> bool:
    try:
        return ops.same_state(spec, own)
    except (ValueError, RuntimeError):
        return False  # of a later version, or of no version: another spec


_DOC = """Batch orthogonalization over {shapes}, in the place of a BatchNorm{d}d.

    Equivalent in training to, with the batch's mean μ and covariance Σ over all but the channels ::

        z = torch.einsum("ij,bj...->bi...", weight[:, None] * T(Σ), x - μ) + bias

    and with the running statistics in evaluation; T is the spec's, for ZCA Σ^(-1/2). Output and input: {shapes}.

    Args:
        num_features: C of the input.
        spec: the method with its arguments, such as "ZCA(1e-5, group_size=16)"; ``orthobatch.methods()`` lists them.
        momentum: share of a batch in the running averages, 0 to 1; None averages all batches equally.
        affine: whether ``weight`` and ``bias`` are learned.
        track_running_stats: without them evaluation uses the batch's own.
        running_average: "covariance", or "transform" to average T itself.
        eps: ε in the place of the spec's; the attribute ``eps`` is the one in use.
        bias: False for ``weight`` alone.
        sample_stride: statistics of every so many places in each direction.
        process_group: processes that share their statistics in training; see ``convert_sync``.
        name: how messages call the layer.

    >>> layer = orthobatch.BatchOrtho{d}d(64, "ZCA(1e-5)")
    >>> layer(torch.randn({example})).shape
    torch.Size([{example}])
    """


class BatchOrtho1d(BatchOrthoLayer):
    __doc__ = _DOC.format(d=1, shapes="(N, C) or (N, C, L)", example="128, 64")
    _dims = 1


class BatchOrtho2d(BatchOrthoLayer):
    __doc__ = _DOC.format(d=2, shapes="(N, C, H, W)", example="8, 64, 7, 7")
    _dims = 2


class BatchOrtho3d(BatchOrthoLayer):
    __doc__ = _DOC.format(d=3, shapes="(N, C, D, H, W)", example="8, 64, 3, 7, 7")
    _dims = 3


LAYERS: Dict[int, Any] = {1: BatchOrtho1d, 2: BatchOrtho2d, 3: BatchOrtho3d}
