"""Nets that several files test with."""

import orthobatch
import pytest
import torch
import torch.nn.functional as F

TORCH2 = int(torch.__version__.split(".")[0]) >= 2


def resnet(spec=None):
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.resnet18(num_classes=10)
    return model if spec is None else orthobatch.convert(model, spec)


def trained(model, x, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), torch.arange(x.size(0)) % 10).backward()
        optimizer.step()
    return model
