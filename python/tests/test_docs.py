"""What the documents show runs as it stands there, and what they link to is there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")])


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "docs/functions.md", "docs/python.md"])
def test_examples(name, tmp_path, monkeypatch):
    pytest.importorskip("torchvision")
    code = blocks(ROOT / name, "python")
    assert code
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in code:
        exec(compile(block, name, "exec"), names)
    if name == "docs/python.md":
        assert os.path.exists("net.pt") and os.path.exists("for_cpp.pt")


def test_the_cpp_of_the_readme_is_built():
    """tests/consumer builds and runs it against the installed package."""
    built = {line.strip() for line in (ROOT / "tests/consumer/main.cpp").read_text().splitlines()}
    (block,) = blocks(ROOT / "README.md", "cpp")
    assert [line for line in block.splitlines() if line.strip() not in built] == []


def anchors(page):
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("https:"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name}: {target}: {sorted(anchors(linked))}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 140


def test_the_cifar10_example(tmp_path):
    """Trains, goes on where it stopped, and draws."""
    for needed in ("torchvision", "matplotlib"):
        pytest.importorskip(needed)
    numpy = pytest.importorskip("numpy")
    (tmp_path / "cifar10").mkdir()
    random = numpy.random.default_rng(1)
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        records = random.integers(256, size=(64, 3073), dtype=numpy.uint8)
        records[:, 0] %= 10
        records.tofile(tmp_path / "cifar10" / f"{name}.bin")

    def run(*arguments):
        command = [sys.executable, ROOT / "examples/train_cifar10.py", "--data", tmp_path, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    short = ["--norm", "ZCAM(1e-5, c=1/10, group_size=16)", "--images", "256", "--epochs", "2", "--out", "out.jsonl"]
    assert run(*short).returncode == 0
    whole = (tmp_path / "out.jsonl").read_text()
    assert [json.loads(line)["epoch"] for line in whole.splitlines()] == [1, 2]
    again = run(*short)
    assert again.returncode == 0 and again.stdout == ""  # nothing was left to do
    other = run(*short, "--seed", "2")
    assert other.returncode == 2 and "expected a state of" in other.stderr
    assert run("--plot", "picture.png", "out.jsonl").returncode == 0
    assert (tmp_path / "picture.png").stat().st_size > 10000
