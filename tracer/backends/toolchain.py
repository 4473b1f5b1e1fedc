"""Is there a C++ compiler that can build what Inductor writes? Asked once, by building a few lines."""

from __future__ import annotations

import functools
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from ..torch_private import cpp_compiler_command

_PROBE = "#include <Python.h>\n#include <vector>\nint probe(int n) { return (int)std::vector<int>(n).size(); }\n"


@functools.cache
def missing_for_inductor() -> str | None:
    """What has to be installed before Inductor can compile for the CPU; None if it can."""
    command = cpp_compiler_command()
    if command is None:
        return "a C++ compiler (g++ or clang++), or name one in the environment variable CXX"
    if os.name == "nt":  # Inductor has checked the compiler itself, and its options differ
        return None
    include = sysconfig.get_paths()["include"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(_PROBE)
        arguments = ["-std=c++17", "-fPIC", "-shared", f"-I{include}", str(source), "-o", str(Path(folder, "probe.so"))]
        try:
            built = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=120, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return f"a working C++ compiler ({command}: {error})"
    if built.returncode == 0:
        return None
    if not Path(include, "Python.h").exists():
        return f"Python's header files (no Python.h in {include})"
    return f"a working C++ compiler ({command} says: {built.stderr.strip().splitlines()[0] if built.stderr else 'no'})"
