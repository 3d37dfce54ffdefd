"""The layers as functions of their tensors, as torch.nn.functional.batch_norm is."""

from typing import Optional

import torch
from torch import Tensor

from ._library import ops  # noqa: F401  (the operators are loaded)


def batch_ortho(
    x: Tensor,
    running_mean: Optional[Tensor] = None,
    running_statistic: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    skew: Optional[Tensor] = None,
    spec: str = "ZCA(1e-5)",
    training: bool = False,
    momentum: float = 0.1,
    sample_stride: int = 1,
    running_average: str = "covariance",
) -> Tensor:
    """Z = R T (X − μ) + b with the batch's own statistics in training, with the running ones else.

    ``x`` is (N, C, …) of two to five dimensions. ``running_statistic`` is the variances (C) for BN, the
    covariance or the transform (C×C, double) for every other spec; in training it and ``running_mean``,
    where given, are moved towards the batch's.
    """
    if x.dim() < 2:
        raise ValueError(f"batch_ortho: expected input of two to five dimensions, got {x.dim()}")
    if running_average not in ("covariance", "transform"):
        raise ValueError(f"batch_ortho: expected running_average 'covariance' or 'transform', got {running_average!r}")
    if (running_mean is None) != (running_statistic is None):
        raise ValueError("batch_ortho: expected running_mean and running_statistic, or neither, got one of them")
    channels = x.size(1)
    dims = 1 if x.dim() <= 3 else x.dim() - 2
    transform = running_average == "transform"
    if not training and running_mean is not None and running_statistic is not None:
        return torch.ops.orthobatch.evaluate(
            x, weight, bias, skew, running_mean, running_statistic, spec, channels, dims, transform, ""
        )
    if not training:
        raise ValueError("batch_ortho: expected running statistics or training=True, got neither")
    out = torch.ops.orthobatch.train(x, weight, bias, skew, spec, channels, dims, sample_stride, transform, "")
    if running_mean is not None and running_statistic is not None:
        count = torch.zeros((), dtype=torch.long, device=x.device)
        torch.ops.orthobatch.track_(
            running_mean, running_statistic, count, out[1], out[3] if transform else out[2], out[4],
            momentum, running_statistic.dim() == 1,
        )  # fmt: skip
    return out[0]
