"""Loads the operators, torch.ops.orthobatch.*, once."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Optional

import torch

from ._built_for import TORCH as _TORCH

_NAME = "liborthobatch.so"


def _loaded() -> Optional[str]:
    """The library that this process has already, if it is a file of its own."""
    with open("/proc/self/maps") as maps:
        paths = (line.split(maxsplit=5)[-1].rstrip("\n") for line in maps)
        return next((path for path in paths if os.path.basename(path).startswith(_NAME)), None)


def _load() -> Optional[str]:
    if hasattr(torch.ops.orthobatch, "train"):
        return _loaded()
    path = Path(__file__).absolute().parent / _NAME
    if not path.exists():
        raise ImportError(
            f"orthobatch: expected {_NAME} beside its Python files in {path.parent}, found none. "
            "From a build tree, set PYTHONPATH to its python folder (build/release/python)"
        )
    # A library for another torch may load, and then compute with memory that is none of its own.
    if torch.__version__.split(".")[:2] != _TORCH.split(".")[:2]:
        raise ImportError(
            f"orthobatch: expected torch {_TORCH}, which it was built for, found torch {torch.__version__}; "
            "install it anew beside this torch (pip install --force-reinstall --no-deps .)"
        )
    try:
        torch.ops.load_library(os.fspath(path))
    except OSError as error:
        raise ImportError(
            f"orthobatch: {path} does not load with torch {torch.__version__}; it was built for "
            f"{_TORCH} ({error})"
        ) from error
    return os.fspath(path)


# Functions that are no operators, as they take addresses.
functions = ctypes.CDLL(_load())
ops = torch.ops.orthobatch
DEFAULT_SPEC: str = ops.default_spec()
