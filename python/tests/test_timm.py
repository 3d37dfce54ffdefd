"""timm's nets, with timm itself."""

import copy
import logging

import orthobatch
import pytest
import torch
from orthobatch import BatchOrtho2d
from torch import nn

timm = pytest.importorskip("timm")


@pytest.mark.parametrize(
    "name",
    ["resnet26", "efficientnet_b0", "mobilenetv3_small_100", "regnetx_002", "densenet121", "resnetv2_50", "repvgg_a0"],
)
def test_convert(name, caplog):
    net = timm.create_model(name, num_classes=5)
    norms = [m for m in net.modules() if isinstance(m, nn.BatchNorm2d)]
    acts = [type(m.act) for m in norms if hasattr(m, "act")]
    x = torch.randn(4, 3, 64, 64)
    with caplog.at_level(logging.INFO, logger="orthobatch"):
        orthobatch.convert(net, "ZCAM(1e-5, c=1/10, group_size=8)")
    if norms:
        assert len(caplog.records) == 1 and f"{len(norms)} layers are" in caplog.text, caplog.text
        assert "left as they are" not in caplog.text
    assert len(orthobatch.layers_of(net)) == len(norms)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
    kept = [type(m.act) for m in net.modules() if isinstance(m, nn.Sequential) and hasattr(m, "norm") and hasattr(m, "drop")]
    assert sorted(map(str, kept)) == sorted(map(str, acts))  # drop and activation are the norm's

    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    loss = nn.functional.cross_entropy(net(x), torch.arange(4))
    loss.backward()
    optimizer.step()
    assert loss.isfinite() and all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())
    net.eval()
    with torch.no_grad():
        orthobatch.update_statistics(net, [x])
        want = net(x)
        folded = orthobatch.fold(net)(x)
    assert want.isfinite().all()
    assert (folded - want).abs().max() < 2e-3 * want.abs().max().clamp_min(1)


@pytest.mark.parametrize("factory", [orthobatch.zca16, orthobatch.norm_layer("LDL(1e-5, group_size=8)"), BatchOrtho2d])
def test_norm_layer(factory):
    net = timm.create_model("resnet26", norm_layer=factory, device="cpu", dtype=torch.float32)
    assert isinstance(net.bn1, BatchOrtho2d) and not any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
    assert net(torch.randn(2, 3, 64, 64)).shape == (2, 1000)
    assert copy.deepcopy(net).bn1.spec == net.bn1.spec
