"""Builds _C (against the torch of this interpreter) and the worker poot-kernelc (LLVM linked in) through CMake.

pip install --no-build-isolation .     # uses the torch that is installed
"""

import os
import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent


def torch_requirement():
    """The minor version of torch that _C is built against: its C++ interface changes with each."""
    try:
        import torch
    except ImportError as e:
        raise SystemExit(
            "poot builds against the installed torch: install torch first, then use --no-build-isolation"
        ) from e
    major, minor = torch.__version__.split(".")[:2]
    return f"torch=={major}.{minor}.*"


class CMakeBuild(build_ext):
    def run(self):
        # In place: beside the sources, tests too, incremental. For a wheel: into the build folder.
        package = ROOT / "poot_torch" if self.inplace else pathlib.Path(self.build_lib).resolve() / "poot_torch"
        build = ROOT / "build" if self.inplace else pathlib.Path(self.build_temp).resolve()
        build.mkdir(parents=True, exist_ok=True)
        configure = [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            "-G",
            "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DPOOT_OUTPUT_DIR={package}",
            f"-DPOOT_TESTS={'ON' if self.inplace else 'OFF'}",
            *os.environ.get("POOT_CMAKE_ARGS", "").split(),
        ]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 2))
        targets = [] if self.inplace else ["--target", "_C", "poot-kernelc"]
        subprocess.run(["cmake", "--build", str(build), "-j", jobs, *targets], check=True)

    def get_outputs(self):
        package = pathlib.Path(self.build_lib) / "poot_torch"
        return [str(p) for p in (*package.glob("_C*.so"), package / "bin" / "poot-kernelc")]


setup(
    ext_modules=[Extension("poot_torch._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    install_requires=[torch_requirement()],
)
