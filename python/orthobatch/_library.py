"""Loads the operators, torch.ops.orthobatch.*, once."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Optional

import torch

_NAME = "liborthobatch.so"


def _load() -> Optional[str]:
    if hasattr(torch.ops.orthobatch, "train"):  # a program that links the library
        return None
    path = Path(__file__).absolute().parent / _NAME
    if not path.exists():
        raise ImportError(
            f"orthobatch: expected {_NAME} beside its Python files in {path.parent}, found none. "
            "From a build tree, set PYTHONPATH to its python folder (build/release/python)"
        )
    try:
        torch.ops.load_library(os.fspath(path))
    except OSError as error:
        raise ImportError(
            f"orthobatch: {path} does not load with torch {torch.__version__}; it was built for "
            f"another one ({error})"
        ) from error
    return os.fspath(path)


# Functions that are no operators, as they take addresses.
functions = ctypes.CDLL(_load())
ops = torch.ops.orthobatch
