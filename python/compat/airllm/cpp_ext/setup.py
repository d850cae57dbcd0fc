"""Builds and chooses backends of the tensor operations, in this folder:

    python setup.py test_capabilities                          what can be built here
    python setup.py build_ext --inplace                        the extension tensor_ops_cpp
    python setup.py build_opencl                               compiles the kernels for a device, and checks them
    python setup.py build_cuda
    python setup.py configure_backend --show                   which backend is used; see tensor_ops_config.py
    python setup.py configure_backend --backend=cpp [--force]
    python setup.py configure_backend --priority="cpp,cuda,opencl,python"

What fails says ERROR, why and what to do, and the exit code is not 0.
"""
import importlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
os.chdir(HERE)
sys.path.insert(0, str(HERE))

try:
    import setuptools
    from setuptools.command.build_ext import build_ext
except ImportError:
    sys.exit("ERROR: setup.py needs setuptools: pip install setuptools")

import tensor_ops_config


# What a program of the user's would get: the backend, and why not an earlier one.
USED = """from airllm import tensor_ops
info = tensor_ops.get_backend_info()
print(info["backend"])
for name, reason in info["unavailable_backends"].items():
    print(f"not {name}: {reason}")
"""


def fail(text):
    sys.exit(f"ERROR: {text}")


def compiler():
    """The C++ compiler's path, or None."""
    return shutil.which(os.environ.get("CXX", "c++").split()[0])


def has_headers():
    return pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file()


def reason_against(module):
    """Why a module cannot be used here, or None."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return str(error)
    return None


class Command(setuptools.Command):
    """What the commands below share: no options, and nothing to finish."""
    user_options = []

    def initialize_options(self):
        pass

    def finalize_options(self):
        pass


class BuildExtension(build_ext):
    description = "build the extension tensor_ops_cpp"

    def run(self):
        if not compiler():
            fail("there is no C++ compiler: apt-get install g++, or name one in CXX")
        if not has_headers():
            fail(f"there is no Python.h in {sysconfig.get_path('include')}: apt-get install python3-dev")
        super().run()


class TestCapabilities(Command):
    description = "show which backends can be built and used here"

    def run(self):
        from shoal import kernels
        used = kernels.instructions()
        cuda, opencl = reason_against("tensor_ops_cuda"), reason_against("tensor_ops_opencl")
        can_build = compiler() and has_headers()
        vectors = used.startswith("avx")
        rows = [("NEON", True, used)] if platform.machine() == "aarch64" else [
            ("AVX2", vectors, ""), ("AVX-512", used.startswith("avx512"), ""), ("FMA", vectors, "")]
        rows += [("Threads", True, f"{kernels.get_num_threads()}, as OMP_NUM_THREADS says"),
                 ("C++ compiler", compiler(), compiler() or "apt-get install g++"),
                 ("Python headers", has_headers(), "" if has_headers() else "apt-get install python3-dev"),
                 ("CUDA backend", not cuda, cuda or ""),
                 ("OpenCL backend", not opencl, opencl or ""),
                 ("C++ backend", can_build, "python setup.py build_ext --inplace"),
                 ("Python backend", True, "the package shoal")]
        for name, there, note in rows:
            print(f"{name:<15}{'✓ Available' if there else '✗ Not available'}" + f"  ({note})" * bool(note))
        print("\nRecommended flags: -O3 -std=c++11\n"
              "(Kernels choose among instruction sets when they run: -mavx2 and the like change nothing.)")


class BuildDevice(Command):
    """Compiles the kernels for a device, which keeps them, and compares their results with NumPy's."""

    def run(self):
        try:
            module = importlib.import_module(f"tensor_ops_{self.backend}")
        except ImportError as error:
            fail(error)
        import tensor_ops_truth
        worst = max(error for _, error in tensor_ops_truth.errors(module))
        if worst > tensor_ops_truth.TOLERANCE:
            fail(f"results on {self.backend} are off by {worst:.1e}; at most {tensor_ops_truth.TOLERANCE:.0e} is right")
        print(getattr(module, f"get_{self.backend}_info")())
        print(f"rms_norm, silu and gelu are compiled; errors are at most {worst:.1e}")


class BuildCuda(BuildDevice):
    description = "compile the kernels for the CUDA device"
    backend = "cuda"


class BuildOpenCL(BuildDevice):
    description = "compile the kernels for the OpenCL device"
    backend = "opencl"


class ConfigureBackend(Command):
    description = "show or set which backend is used (backend.json)"
    user_options = [("show", None, "show the configuration, which is also the default"),
                    ("backend=", None, "the backend to try first: auto, " + ", ".join(tensor_ops_config.BACKENDS)),
                    ("priority=", None, "the order of the others, as a list with commas"),
                    ("force", None, "use no other backend than the one to try first; without it, others may be used")]
    boolean_options = ["show", "force"]

    def initialize_options(self):
        self.show = self.force = False
        self.backend = self.priority = None

    def run(self):
        try:
            config = tensor_ops_config.read()
            if self.backend is not None:
                config |= {"preferred_backend": self.backend, "force_backend": False}
            if self.priority is not None:
                config["backend_priority"] = [word.strip() for word in self.priority.split(",")]
            if self.force:
                config["force_backend"] = True
            if self.backend is not None or self.priority is not None or self.force:
                tensor_ops_config.write(config)
        except (ValueError, OSError) as error:
            fail(error)
        file = tensor_ops_config.path()
        print(f"{file}" + ": not there; these are the defaults" * (not file.exists()))
        for name, value in config.items():
            print(f"  {name}: {', '.join(value) if isinstance(value, list) else json.dumps(value)}")
        done = subprocess.run([sys.executable, "-c", USED], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": f"{HERE.parents[1]}:{os.environ.get('PYTHONPATH', '')}"})
        print("used here:", done.stdout.strip() or "none; " + done.stderr.strip().rpartition("\n")[2])


if __name__ == "__main__":
    setuptools.setup(
        name="tensor_ops_cpp", version="0.1.0", packages=[], py_modules=[],
        ext_modules=[setuptools.Extension("tensor_ops_cpp", ["tensor_ops_cpp.cpp"], include_dirs=["include"],
                                          extra_compile_args=["-O3", "-std=c++11"], language="c++")],
        cmdclass={"build_ext": BuildExtension, "test_capabilities": TestCapabilities, "build_cuda": BuildCuda,
                  "build_opencl": BuildOpenCL, "configure_backend": ConfigureBackend})
