"""The torch that the package is built against: `python torch_of_python.py` prints its folder, or ends with 1.

In pip's isolated build `import torch` fails, but the folder that pip installs into is still the environment's own.
"""

from __future__ import annotations

import importlib.util
import re
import sys
import sysconfig
from pathlib import Path


def folder_of_torch() -> Path | None:
    """site-packages/torch of this Python."""
    places = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        places.insert(0, Path(spec.origin).parents[1])
    if sys.prefix == "/usr":  # Debian's own packages
        places.append(Path("/usr/lib/python3/dist-packages"))
    folders = (place / "torch" for place in places)
    return next((folder for folder in folders if (folder / "version.py").exists()), None)


def dynamic_metadata(field: str, settings: dict, project: object = None) -> list[str]:
    """The dependencies of a wheel: torch, from the version it is built with to the next. Of a source archive: torch."""
    folder = folder_of_torch()
    if folder is None:
        return ["torch"]
    version = re.search(r"^__version__.*?(\d+)\.(\d+)", (folder / "version.py").read_text(), re.MULTILINE)
    assert version, f"expected a version in {folder / 'version.py'}"
    major, minor = (int(number) for number in version.groups())
    return [f"torch>={major}.{minor}.0a0,<{major}.{minor + 1}.0a0"]


if __name__ == "__main__":
    folder = folder_of_torch()
    if folder is None:
        sys.exit(1)
    print(folder)
