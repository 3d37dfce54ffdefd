#!/usr/bin/env python3
"""Three uses of whitening that need no layer.

    PYTHONPATH=build/release/python /usr/bin/python3 examples/functions.py

prints a value of each on random features.
"""

import torch
import torch.nn.functional as F
from orthobatch.functional import whiten, whitening_matrix


def w_mse(first, second):
    """W-MSE (Ermolov et al. 2021): two views of a batch, (N, C) features; the loss of self-supervised training."""
    a = F.normalize(whiten(first, "LDL(1e-5)"))
    b = F.normalize(whiten(second, "LDL(1e-5)"))
    return (2 - 2 * (a * b).sum(1)).mean()


def domain_whitening(x, domains=2, channels=4):
    """DWT (Roy et al. 2019): (N, C, H, W), each domain's share of the batch whitened alone, in groups of channels."""
    spec = f"LDL(1e-5, group_size={channels})"
    return torch.cat([whiten(part, spec) for part in x.chunk(domains)])


def covariance_pooling(x):
    """iSQRT-COV (Li et al. 2018): (N, C, H, W) to the root of each image's covariance, its upper triangle."""
    rows = x.flatten(2) - x.flatten(2).mean(2, keepdim=True)
    sigma = rows @ rows.transpose(1, 2) / rows.size(2)
    i, j = torch.triu_indices(x.size(1), x.size(1))
    return (sigma @ whitening_matrix(sigma, "ZCA(1e-5)"))[:, i, j]


if __name__ == "__main__":
    torch.manual_seed(1)
    views, images = torch.randn(2, 256, 64), torch.randn(16, 32, 14, 14)
    print(f"W-MSE of unrelated views        {w_mse(*views):.3f}")
    print(f"variance after domain whitening {domain_whitening(images).var():.3f}")
    print(f"covariance pooling              {tuple(covariance_pooling(images).shape)}")
