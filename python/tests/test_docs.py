"""What the documents show runs as it stands there, and what they link to is there."""

import os
import re
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
