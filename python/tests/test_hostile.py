"""Operators called with anything: they return or raise, and never end the process."""

import os
import subprocess
import sys

import pytest

CALLS = 4000 if os.environ.get("ORTHOBATCH_LONG") else 600


@pytest.mark.parametrize("seed", [1, 2])
def test_operators_take_anything(seed):
    script = os.path.join(os.path.dirname(__file__), "fuzz_operators.py")
    ran = subprocess.run([sys.executable, script, str(seed), str(CALLS)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_a_convolution_of_stride_0_is_refused():
    import torch

    import orthobatch

    conv = torch.nn.Conv2d(4, 3, 3)
    conv.stride = (0, 0)
    pair = orthobatch.FoldedConv2d(orthobatch.BatchOrtho2d(4), conv)
    with pytest.raises(RuntimeError, match="stride is at least 1, got 0"):
        pair(torch.randn(2, 4, 6, 6))


def test_a_check_of_hours_can_be_interrupted():
    script = """
import os, signal, threading, orthobatch
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    orthobatch.check("ZCA(1e-5)", num_features=256, samples=4096)
except KeyboardInterrupt:
    print("interrupted,", "then", bool(orthobatch.check("ZCA(1e-5)")))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "interrupted, then True\n", ran.stderr
