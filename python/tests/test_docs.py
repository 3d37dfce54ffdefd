"""What the documents show runs as it stands there."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parents[2]


@pytest.mark.parametrize("name", ["README.md", "docs/python.md"])
def test_examples(name, tmp_path, monkeypatch):
    pytest.importorskip("torchvision")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    if name == "docs/python.md":
        assert os.path.exists("net.pt") and os.path.exists("for_cpp.pt")
