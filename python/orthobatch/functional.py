"""The layers as functions of their tensors, as torch.nn.functional.batch_norm is."""

from typing import Any, Optional

import torch
from torch import Tensor

from ._library import DEFAULT_SPEC


def batch_ortho(
    x: Tensor,
    running_mean: Optional[Tensor] = None,
    running_statistic: Optional[Tensor] = None,
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    skew: Optional[Tensor] = None,
    spec: str = DEFAULT_SPEC,
    training: bool = False,
    momentum: Optional[float] = 0.1,
    sample_stride: int = 1,
    running_average: str = "covariance",
    running_statistic_last: Optional[Tensor] = None,
    num_batches_tracked: Optional[Tensor] = None,
) -> Tensor:
    """Z = R T (X − μ) + b with the batch's own statistics in training, with the running ones else.

    Equivalent to ``F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)`` for ``BN(eps)``.

    Args:
        x: (N, C, …) of two to five dimensions; the output has its shape.
        running_mean: (C). In training it and the next are moved towards the batch's, where given.
        running_statistic: variances (C) for BN, the covariance or the transform for every other spec, double: C×C, or
            (groups, g, g) with ``group_size=g``.
        weight, bias, skew: (C), (C), and (C·(C−1)/2) for specs with a rotation.
        spec, momentum, sample_stride, running_average: as those of BatchOrtho2d.
        training: whether the batch's own statistics are used.
        running_statistic_last: r×r, the statistic of a smaller last group.
        num_batches_tracked: int64 scalar, counted on; needed with momentum None.

    >>> z = orthobatch.functional.batch_ortho(torch.randn(8, 4, 5, 5), training=True)
    """
    if x.dim() < 2:
        raise ValueError(f"batch_ortho: expected input of two to five dimensions, got {x.dim()}")
    if running_average != "covariance" and running_average != "transform":
        raise ValueError(f"batch_ortho: expected running_average 'covariance' or 'transform', got '{running_average}'")
    if (running_mean is None) != (running_statistic is None):
        raise ValueError("batch_ortho: expected running_mean and running_statistic, or neither, got one of them")
    if training and running_mean is not None and momentum is None and num_batches_tracked is None:
        raise ValueError("batch_ortho: expected num_batches_tracked with momentum=None, got none")
    dims = 1 if x.dim() <= 3 else x.dim() - 2
    layer = torch.ops.orthobatch.layer(dims, x.size(1), spec, sample_stride, running_average == "transform", 0, "")
    if not training:
        if running_mean is None or running_statistic is None:
            raise ValueError("batch_ortho: expected running statistics or training=True, got neither")
        return torch.ops.orthobatch.evaluate(
            x, weight, bias, skew, running_mean, running_statistic, running_statistic_last, layer
        )
    count = num_batches_tracked
    if count is None:
        count = torch.zeros((), dtype=torch.long, device=x.device)
    return torch.ops.orthobatch.step_(
        x, weight, bias, skew, running_mean, running_statistic, running_statistic_last, count, momentum, layer
    )[0]


def whiten(x: Tensor, spec: str = "ZCA(1e-5)", return_map: bool = False) -> Any:
    """T (x − μ) with the statistics of x itself: whitening as a function, without parameters or running averages.

    Equivalent to ``(x - x.mean(0)) @ T.T`` with ``T = whitening_matrix(torch.cov(x.T, correction=0), spec)`` for x of
    (N, C). The gradient is exact and finite, at equal eigenvalues and with fewer samples than channels too.

    Args:
        x: (N, C, …) of two to five dimensions; the channels are whitened over all other dimensions.
        spec: as of the layers, without ``->W``: ``LDL(1e-5)`` for the inverse Cholesky factor.
        return_map: return (output, T, μ), to whiten other data: T is C×C, μ is (C); both have their gradients.

    >>> z = orthobatch.functional.whiten(torch.randn(256, 64), "LDL(1e-5)")
    """
    output, matrix, mean = torch.ops.orthobatch.whiten(x, spec, return_map)
    return (output, matrix, mean) if return_map else output


def whitening_matrix(covariance: Tensor, spec: str = "ZCA(1e-5)") -> Tensor:
    """T of each covariance, with T Σ Tᵀ = I where Σ is regular and ε small.

    Equivalent to ``U @ torch.diag(l.rsqrt()) @ U.T`` with ``l, U = torch.linalg.eigh(covariance + eps * I)`` for
    ``ZCA(eps)``, but the gradient is finite at equal eigenvalues. N×N work runs on the CPU in double, the matrices of
    a batch on all threads.

    Args:
        covariance: symmetric matrices (…, C, C); the result has their shape, type and device.
        spec: as of the layers, without ``->W``; a ``group_size`` divides C.

    >>> T = orthobatch.functional.whitening_matrix(torch.eye(16).repeat(64, 1, 1), "ZCA(1e-5)")
    """
    return torch.ops.orthobatch.whitening_matrix(covariance, spec)[0]
