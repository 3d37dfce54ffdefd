"""Batch-orthogonalization (whitening) layers that replace BatchNorm.

    import orthobatch

    net = orthobatch.convert(torchvision.models.resnet18(), "ZCA(1e-5, group_size=16)")
    layer = orthobatch.BatchOrtho2d(64, "ZCAE(1e-5)")

Specs are the paper's names for the layers; ``methods()`` lists them. The same operators as those of the C++ library
compute; this package needs the torch it was built for.
"""

from . import functional
from ._library import ops as _ops
from .archive import load_archive, save_archive
from .convert import bn, convert, ldl, norm_layer, zca, zca16, zca64, zcae, zcam
from .fold import fold, fold_training, unfold_training
from .folded import FoldedConv1d, FoldedConv2d, FoldedConv3d, FoldedLinear
from .modules import BatchOrtho1d, BatchOrtho2d, BatchOrtho3d, BatchOrthoLayer
from .processes import convert_sync
from .recent import auto_update_statistics
from .tools import (
    check,
    covariance,
    freeze,
    layers_of,
    methods,
    name_layers,
    summary,
    unfreeze,
    update_statistics,
    whiteness_error,
)

__version__: str = _ops.version()

__all__ = [
    "BatchOrtho1d", "BatchOrtho2d", "BatchOrtho3d", "BatchOrthoLayer", "FoldedConv1d", "FoldedConv2d", "FoldedConv3d",
    "FoldedLinear", "auto_update_statistics", "bn", "check", "convert", "convert_sync", "covariance", "fold", "fold_training", "freeze",
    "functional", "layers_of", "ldl", "load_archive", "methods", "name_layers", "norm_layer", "save_archive", "summary",
    "unfold_training", "unfreeze", "update_statistics", "whiteness_error", "zca", "zca16", "zca64", "zcae", "zcam",
]  # fmt: skip
