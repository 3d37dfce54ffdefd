"""A wheel of the Python package: pip wheel . --no-build-isolation

The operators are built by CMake against the torch of this interpreter, in a folder of their own, or in the build tree
that ORTHOBATCH_BUILD_DIR names. torch is no declared dependency: a wheel is for the one it was built with.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).absolute().parent
LIBRARY = "liborthobatch.so"


class BuildWithOperators(build_py):
    def run(self):
        super().run()
        tree = os.environ.get("ORTHOBATCH_BUILD_DIR")
        if tree is None:
            tree = ROOT / "build" / "wheel"
            off = [f"-DORTHOBATCH_BUILD_{part}=OFF" for part in ("CLI", "TESTS", "BENCH")]
            subprocess.run(
                ["cmake", "-S", ROOT, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *off,
                 "-DORTHOBATCH_BUILD_PYTHON=ON", f"-DORTHOBATCH_PYTHON={sys.executable}"],
                check=True,
            )  # fmt: skip
        subprocess.run(["cmake", "--build", tree, "--target", LIBRARY], check=True)
        shutil.copy2(Path(tree) / LIBRARY, Path(self.build_lib) / "orthobatch" / LIBRARY)


class PlatformWheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        """Any Python 3 on this platform: the library knows torch, not Python."""
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True


def version():
    found = re.search(r"project\(orthobatch VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found, "expected a version in CMakeLists.txt"
    return found.group(1)


setup(
    version=version(),
    distclass=WithLibrary,
    cmdclass={"build_py": BuildWithOperators, "bdist_wheel": PlatformWheel},
)
