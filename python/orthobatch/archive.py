"""State dicts to and from C++: torch::save and torch::load write and read TorchScript archives."""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from typing import Union

import torch
from torch import Tensor, nn

from .modules import BatchOrthoLayer

Path = Union[str, "os.PathLike[str]"]


def load_archive(path: Path) -> "OrderedDict[str, Tensor]":
    """The state dict of a module that C++ wrote with torch::save, for ``load_state_dict``."""
    return OrderedDict(torch.jit.load(os.fspath(path), map_location="cpu").state_dict())


class _Holder(nn.Module):
    """The parameters, buffers and children of a module, and nothing else."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        for name, p in module._parameters.items():
            self.register_parameter(name, p)
        for name, b in module._buffers.items():
            if name not in module._non_persistent_buffers_set:
                self.register_buffer(name, b)
        for name, child in module._modules.items():
            if child is not None:
                self.add_module(name, _Holder(child))
        if isinstance(module, BatchOrthoLayer):
            self.spec = module.spec


def save_archive(module: nn.Module, path: Path) -> None:
    """Writes what torch::load in C++ reads into a module whose parts have the same names."""
    path = os.fspath(path)
    holder = torch.jit.script(_Holder(module))
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix="orthobatch-", suffix=".tmp")
    try:
        os.close(handle)
        torch.jit.save(holder, temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
