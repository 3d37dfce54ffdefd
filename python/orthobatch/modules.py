"""BatchOrtho1d, BatchOrtho2d, BatchOrtho3d: modules that stand where BatchNorm1d/2d/3d stood."""

import operator
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.fx
from torch import Tensor, nn

from ._library import ops

try:  # torch 2
    from torch.compiler import is_compiling as _is_compiling
except ImportError:

    def _is_compiling() -> bool:
        return False


_warned_of_blas = False


def _warn_of_slow_blas() -> None:
    """N×N work at a quarter of its speed is not an error, but nobody would find out. Said once."""
    global _warned_of_blas
    if _warned_of_blas:
        return
    _warned_of_blas = True
    advice = ops.blas_advice()
    if advice:
        warnings.warn(f"orthobatch: {advice}", stacklevel=4)


class BatchOrthoLayer(nn.Module):
    """What BatchOrtho1d, 2d and 3d share; use those.

    Parameters: ``weight`` (γ; none in specs that end in ``->W``), ``bias``, ``skew`` (the rotation of
    specs with ``->W``). Buffers: ``running_mean``, then ``running_var`` (BN), ``running_cov`` or
    ``running_transform``, ``num_batches_tracked``. Names, shapes and types are those of the C++ layers.
    """

    _version = 1
    _exact = ("running_cov", "running_transform", "num_batches_tracked")

    _dims = 0

    dims: int
    num_features: int
    spec: str
    momentum: Optional[float]
    affine: bool
    track_running_stats: bool
    running_average: str
    sample_stride: int
    name: str
    frozen: bool
    synchronized: bool  # in training, with the batches of the process group
    _batch: Optional[Tuple[Tensor, List[int]]]  # covariance and counts of the last one
    _stopped: List[str]
    if TYPE_CHECKING:  # for people's tools alone: TorchScript finds out itself what is None
        weight: Optional[nn.Parameter]
        bias: Optional[nn.Parameter]
        skew: Optional[nn.Parameter]
        running_mean: Optional[Tensor]
        running_var: Optional[Tensor]
        running_cov: Optional[Tensor]
        running_transform: Optional[Tensor]
        num_batches_tracked: Optional[Tensor]

    def __init__(
        self,
        num_features: int,
        spec: str = "ZCA(1e-5)",
        momentum: Optional[float] = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        running_average: str = "covariance",
        device: Optional[Any] = None,
        dtype: Optional[torch.dtype] = None,
        *,
        sample_stride: int = 1,
        process_group: Optional[Any] = None,
        name: str = "",
    ) -> None:
        super().__init__()
        kind = type(self).__name__
        has_scale, has_rotation, per_channel, scale_inside, _ = ops.traits(str(spec))
        num_features, sample_stride = operator.index(num_features), operator.index(sample_stride)
        if not isinstance(name, str):
            raise TypeError(f"{kind}: expected a name, got {name!r}")
        if dtype not in (None, torch.float32, torch.float64, torch.float16, torch.bfloat16):
            raise TypeError(f"{kind}: expected a floating type, got {dtype}")
        if not 1 <= num_features <= 1 << 16:
            raise ValueError(f"{kind}: expected 1 to 65536 channels, got {num_features}")
        if momentum is not None and not 0 <= momentum <= 1:
            raise ValueError(f"{kind}: expected a momentum from 0 to 1, got {momentum}")
        if running_average not in ("covariance", "transform"):
            raise ValueError(f"{kind}: expected running_average 'covariance' or 'transform', got {running_average!r}")
        if running_average == "transform" and scale_inside:
            raise ValueError(
                f"{kind}: {spec} has its scale inside the transform; expected running_average='covariance'"
            )
        if sample_stride < 1:
            raise ValueError(f"{kind}: expected a sample_stride of 1 or more, got {sample_stride}")
        if not per_channel:
            _warn_of_slow_blas()
        self.dims = self._dims
        self.num_features = num_features
        self.spec = ops.canonical(str(spec))
        self.momentum = None if momentum is None else float(momentum)
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.running_average = running_average
        self.sample_stride = sample_stride
        self.name = name
        self.frozen = False
        self.synchronized = process_group is not None
        self.process_group = process_group
        self._averages_transform = running_average == "transform"
        self._unbiased = per_channel and not self._averages_transform
        self._batch = None
        self._rank = 0  # of the last input in training; 0: not known
        self._warned = False
        self._stopped = []  # parameters that `freeze` stopped

        factory: Dict[str, Any] = {"device": device, "dtype": dtype}
        exact: Dict[str, Any] = {"device": device, "dtype": torch.float64}
        n = self.num_features

        def parameter(label: str, size: int, present: bool) -> None:
            value = nn.Parameter(torch.empty(size, **factory)) if present else None
            self.register_parameter(label, value)

        parameter("weight", n, affine and has_scale)
        parameter("bias", n, affine)
        parameter("skew", ops.skew_size(n), has_rotation)

        def buffer(label: str, present: bool, make: Callable[[], Tensor]) -> None:
            self.register_buffer(label, make() if present and track_running_stats else None)

        averages = self._averages_transform
        buffer("running_mean", True, lambda: torch.zeros(n, **factory))
        buffer("running_var", per_channel and not averages, lambda: torch.ones(n, **factory))
        buffer("running_cov", not per_channel and not averages, lambda: torch.eye(n, **exact))
        buffer("running_transform", averages, lambda: torch.eye(n, **exact))
        buffer("num_batches_tracked", True, lambda: torch.tensor(0, dtype=torch.long, device=device))
        self.reset_parameters()

    # ------------------------------------------------------------------------------- forward

    def forward(self, x: Tensor) -> Tensor:
        if not torch.jit.is_scripting():
            if isinstance(x, torch.fx.Proxy):  # a leaf of whatever is traced, as BatchNorm is
                leaf = self._leaf(x)
                if leaf is not None:
                    return leaf
        training = self.training and not self.frozen
        mean = self.running_mean
        if training and self.synchronized:
            return self._with_others(x)
        if training or mean is None:
            out = torch.ops.orthobatch.step_(
                x, self.weight, self.bias, self.skew,
                mean if training else None, self._statistic() if training else None, self.num_batches_tracked,
                self.momentum, self.spec, self.num_features, self.dims, self.sample_stride,
                self._averages_transform, self._unbiased, self.name,
            )  # fmt: skip
            if not torch.jit.is_scripting():
                self._note(out, out[1], out[2])
            return out[0]
        statistic = self._statistic()
        assert statistic is not None
        return torch.ops.orthobatch.evaluate(
            x, self.weight, self.bias, self.skew, mean, statistic, self.spec, self.num_features,
            self.dims, self._averages_transform, self.name,
        )  # fmt: skip

    @torch.jit.unused
    def _with_others(self, x: Tensor) -> Tensor:
        from .ranks import Synchronized

        layer = (self.spec, self.num_features, self.dims, self.sample_stride, self.name)
        out = Synchronized.apply(
            x, self.weight, self.bias, self.skew, layer, self._averages_transform, self.process_group
        )
        self._track(out[1], out[2], out[3], out[4])
        self._note(out, out[2], out[4])
        return out[0]

    @torch.jit.unused
    def _leaf(self, x: Any) -> Any:
        try:
            path = x.tracer.path_of_module(self)
        except (AttributeError, NameError):  # a tracer of another kind
            return None
        # Where the layer itself is what is traced, its operators are.
        return x.tracer.create_proxy("call_module", path, (x,), {}) if path else None

    def _statistic(self) -> Optional[Tensor]:
        """The running average that T comes from."""
        if self.running_var is not None:
            return self.running_var
        if self.running_cov is not None:
            return self.running_cov
        return self.running_transform

    def _track(self, mean: Tensor, covariance: Tensor, transform: Tensor, report: Tensor) -> None:
        """The running averages take a batch."""
        own_mean, statistic, count = self.running_mean, self._statistic(), self.num_batches_tracked
        if own_mean is not None and statistic is not None and count is not None:
            torch.ops.orthobatch.track_(
                own_mean, statistic, count, mean,
                transform if self._averages_transform else covariance,
                report, self.momentum, self._unbiased,
            )  # fmt: skip

    @torch.jit.unused
    def _note(self, out: Any, covariance: Any, report: Any) -> None:
        """Keeps what ``summary`` shows, where there are values to keep, and warns."""
        if type(out) is not tuple or _is_compiling() or torch._C._get_tracing_state() is not None:
            return
        try:
            counts = report.tolist()
        except (RuntimeError, NotImplementedError):  # meta and fake tensors, those of functorch: no values
            return
        self.__dict__["_batch"] = (covariance, counts)
        self.__dict__["_rank"] = out[0].dim()
        if (counts[2] > 0 or self.sample_stride > 1) and not self._warned:
            self._warn(counts[0], counts[2])

    @torch.jit.unused
    def _warn(self, samples: int, null: int) -> None:
        """Of what users would want to know, once."""
        group = ops.traits(self.spec)[4] or self.num_features
        text = ""
        if self.sample_stride > 1 and 0 < samples < group:
            text = (
                f"sample_stride {self.sample_stride} sees {samples} places for {group} channels; what lies in "
                "directions it does not see comes out far too large"
            )
        elif null > 0:
            text = (
                f"{null} of {self.num_features} directions have no variance (constant or duplicated channels, or "
                "too few samples); they are 0 in the output"
            )
        if text:
            self.__dict__["_warned"] = True
            warnings.warn(f"{self.description()}: {text}. Said once.", stacklevel=5)

    @torch.jit.unused
    def description(self) -> str:
        """BatchOrtho2d(64, "ZCA(1e-5)"), with the name where it has one."""
        out = f'{type(self).__name__}({self.num_features}, "{self.spec}")'
        return f"{out} '{self.name}'" if self.name else out

    # --------------------------------------------------------------------------------- state

    def reset_running_stats(self) -> None:
        """μ̂ to 0, Σ̂ (or the transform) to the identity, no batches tracked."""
        with torch.no_grad():
            if self.running_mean is not None:
                self.running_mean.zero_()
            if self.running_var is not None:
                self.running_var.fill_(1)
            for t in (self.running_cov, self.running_transform):
                if t is not None:
                    t.zero_().fill_diagonal_(1)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """γ to 1, b and S to 0, and the running statistics as new."""
        self.reset_running_stats()
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if self.skew is not None:
            nn.init.zeros_(self.skew)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "BatchOrthoLayer":
        """As torch's, but what is double stays double through float(), half() and to()."""
        before = {key: self._buffers[key] for key in self._exact if self._buffers.get(key) is not None}
        super()._apply(fn, *args, **kwargs)
        for key, old in before.items():
            new = self._buffers[key]
            if new is not None and old is not None and new.dtype != old.dtype:
                self._buffers[key] = old.to(new.device)
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", None)
        if metadata is not None and prefix[:-1] in metadata:
            metadata[prefix[:-1]]["spec"] = self.spec

    def _load_from_state_dict(
        self,
        state_dict: Dict[str, Any],
        prefix: str,
        local_metadata: Dict[str, Any],
        strict: bool,
        missing_keys: List[str],
        unexpected_keys: List[str],
        error_msgs: List[str],
    ) -> None:
        spec = local_metadata.get("spec")
        if spec is None:
            # Of torch's BatchNorm, of C++, or bare: taken where its names and shapes fit.
            key = prefix + "num_batches_tracked"
            if self.num_batches_tracked is not None and key not in state_dict:
                state_dict[key] = torch.tensor(0, dtype=torch.long)
        else:
            version = local_metadata.get("version") or 0
            if version > self._version:
                error_msgs.append(
                    f"{prefix[:-1] or type(self).__name__}: expected a state of version {self._version} "
                    f"or earlier, got {version}"
                )
                return
            try:
                same = ops.same_state(spec, self.spec)
            except (ValueError, RuntimeError):
                same = False  # of a later version, or of no version: another spec
            if not same:
                error_msgs.append(
                    f"{prefix[:-1] or type(self).__name__}: expected a state of {self.spec}, got one of "
                    f"{spec}; the layer is unchanged"
                )
                return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def __getstate__(self) -> Dict[str, Any]:
        state = self.__dict__.copy()
        state["_batch"] = None
        if self.process_group is not None:  # it is this process's own: a copy elsewhere has all processes
            state["process_group"] = None
        return state

    def __deepcopy__(self, memo: Dict[int, Any]) -> "BatchOrthoLayer":
        import copy

        clone = type(self).__new__(type(self))
        memo[id(self)] = clone
        clone.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__getstate__().items()})
        clone.__dict__["process_group"] = self.process_group
        return clone

    def extra_repr(self) -> str:
        parts = [f'{self.num_features}, "{self.spec}"', f"momentum={self.momentum}"]
        if not self.affine:
            parts.append("affine=False")
        if not self.track_running_stats:
            parts.append("track_running_stats=False")
        if self.running_average != "covariance":
            parts.append(f"running_average='{self.running_average}'")
        if self.sample_stride != 1:
            parts.append(f"sample_stride={self.sample_stride}")
        if self.frozen:
            parts.append("frozen")
        if self.synchronized:
            parts.append("synchronized")
        return ", ".join(parts)


class BatchOrtho1d(BatchOrthoLayer):
    """Batch orthogonalization over (N, C) or (N, C, L)."""

    _dims = 1


class BatchOrtho2d(BatchOrthoLayer):
    """Batch orthogonalization over (N, C, H, W)."""

    _dims = 2


class BatchOrtho3d(BatchOrthoLayer):
    """Batch orthogonalization over (N, C, D, H, W)."""

    _dims = 3
