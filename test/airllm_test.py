"""python/compat/airllm: every program of its documents (the seeds 001 and 002, beside the checkout), unchanged, in the
folders that they use; and what they leave open: errors, the configuration, devices that are missing or fail."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import documents
import layer_model
import numpy as np
import pytest
import shoal
from shoal import kernels

HAS_CUDA = any(device.backend == "cuda" and device.name for device in kernels.devices())
BUILD = "python setup.py build_ext --inplace\n"


class Target:
    """A folder with `mix/target`, in which the documents' programs are run; a PATH on which apt-get changes nothing."""

    def __init__(self, folder):
        self.folder, self.cpp_ext = folder, folder / "mix/target/airllm/cpp_ext"
        shutil.copytree(documents.ROOT / "python/compat", folder / "mix/target",
                        ignore=shutil.ignore_patterns("gt", "__pycache__", "build", "backend.json", "*.so"))
        (folder / "path/to").mkdir(parents=True)
        (folder / "path/to/cpp_ext").symlink_to(self.cpp_ext)
        commands = folder / "bin"
        commands.mkdir()
        for name, line in {"apt-get": '/usr/bin/apt-get --simulate "$@"', "sudo": '"$@"'}.items():
            (commands / name).write_text(f"#!/bin/sh\nexec {line}\n")
            (commands / name).chmod(0o755)
        self.config = pathlib.Path(sysconfig.get_config_var("BINDIR"),
                                   f"python{sysconfig.get_config_var('VERSION')}-config")
        (commands / "python3-config").symlink_to(self.config)
        self.environment = {"PATH": f"{commands}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
                            "CPATH": str(self.cpp_ext / "include")}

    def run(self, code, *, folder=None, language="python", path=("mix/target", "mix/target/airllm/cpp_ext"), **more):
        path = ":".join([*(str(self.folder / place) for place in path), os.environ.get("PYTHONPATH", "")])
        return documents.run(code, folder or self.folder, language, **{**self.environment, "PYTHONPATH": path, **more})

    def setup(self, arguments, **more):
        return self.run(f"python setup.py {arguments}", folder=self.cpp_ext, language="bash", **more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    target = Target(tmp_path_factory.mktemp("airllm"))
    target.run(BUILD, folder=target.cpp_ext, language="bash")
    return target


@pytest.fixture
def target(made):
    """With the extension built, and no configuration."""
    (made.cpp_ext / "backend.json").unlink(missing_ok=True)
    yield made
    (made.cpp_ext / "backend.json").unlink(missing_ok=True)


# ---- the documents ----

BLOCKS = [(number, line, language, code) for number in ("001", "002") for language in ("python", "bash")
          for line, code in documents.blocks(number, language)]
# What stands for arguments is no program.
PROGRAMS = [block for block in BLOCKS if " ... " not in block[3]]

# What a program prints, by what it holds.
PRINTS = {
    "tensor_ops.get_backend_info()": r"Active backend: (cuda|opencl|cpp)\nBackend info: \{'backend': ",
    "configure_backend": r"(?s)defaults\n.*preferred_backend: \"cpp\"\n.*backend_priority: cpp, cuda, opencl, python\n",
    "test_capabilities": r"(?s)AVX2 .* Available.*C\+\+ backend +✓ Available.*Recommended flags: ",
    "build_ext": r"building 'tensor_ops_cpp' extension\n",
    "build_opencl": r"OpenCL Device Info:\n  Device: .*\n(.*\n)*rms_norm, silu and gelu are compiled",
    "detect_and_benchmark": r"(?s)Step 1 of 4.*Step 4 of 4.*256x4096.*\nAll Steps Completed Successfully!\n$",
    "test_cpp_ext": r"(?s)tensor_ops_cpp: 5 tests passed\n.*All tests passed\n$",
    "get_opencl_info": r"OpenCL Device Info:\n  Device: ",
    "get_optimization_info": r"Tensor Operations Optimization Info:\n  SIMD Level: \S+\n  OpenMP: .*\n  FMA: (Yes|No)\n$",
    "SIMD support": r"SIMD support: (True|False)\n$",
    "print(tensor_ops_cpp.has_simd)": r"(True|False)\n$",
    "print_backend_info": r"C\+\+ extension: yes\nInstructions: ",
    "profile_worker": r"(?s)Active backend: .*\nrms_norm 1024 .*\nall ",
    "LayerWiseInferenceEngine": r"\(100,\)\n$",
    "pip install": r"Requirement already satisfied: pybind11",
    "nvcc --version": r"Cuda compiler driver",
    "clinfo": r"Number of platforms",
}


def lacking(code):
    """Why a program cannot be run on this machine, or None."""
    for command, advice in {"nvcc": "install CUDA's toolkit", "clinfo": "apt-get install clinfo",
                            "apt-get": "this is no Debian"}.items():
        if re.search(rf"^(sudo )?{command}\b", code, re.M) and not shutil.which(command):
            return f"there is no {command}: {advice}"
    if "pybind11" in code and subprocess.run([sys.executable, "-m", "pybind11", "--includes"],
                                             capture_output=True).returncode:
        return "there is no pybind11: tools/install.sh test"
    if "python3-config" in code and not (pathlib.Path(sysconfig.get_config_var("BINDIR")) / "python3-config").exists():
        return "there is no python3-config: apt-get install python3-dev"
    if "apt-get install" in code and not any(pathlib.Path("/var/lib/apt/lists").glob("*Packages*")):
        return "apt-get knows no packages: apt-get update"
    return None


@documents.needs("001")
@documents.needs("002")
def test_the_documents_are_read():
    assert [sum(block[0] == number for block in BLOCKS) for number in ("001", "002")] == [14, 13]
    assert [block[3].split()[0] for block in BLOCKS if block not in PROGRAMS] == ["c++", "c++"]


@pytest.mark.parametrize("number,line,language,code", PROGRAMS, ids=[f"{b[0]}-{b[1]}" for b in PROGRAMS])
def test_program_of_the_documents(number, line, language, code, target):
    """Each block, byte for byte. What it takes for granted is put before it."""
    if lacking(code):
        pytest.skip(lacking(code))
    before, where = "", {}
    if "tensor_ops_hybrid.rms_norm(x, weight)" in code:
        before = next(code for _, code in documents.blocks("002", "python") if "eps=1e-6" in code)
    if "path/to/cpp_ext" in code:
        where = {"path": ()}
    if language == "bash" and "cd mix" not in code:
        where = {"folder": target.cpp_ext}
    if "build_ext" in code:
        shutil.rmtree(target.cpp_ext / "build")
        next(target.cpp_ext.glob("tensor_ops_cpp.*.so")).unlink()
    if "build_cuda" in code or "import tensor_ops_cuda" in code:
        where["fails"] = not HAS_CUDA
    if "LayerWiseInferenceEngine" in code:
        layer_model.write_m(target.folder / "tiny.m", layer_model.tiny(), "q4_0")
        before = "model_path = 'tiny.m'\n"
        code += "print(engine.forward([1, 2]).shape)\n"
    printed = target.run(before + code, language=language, **where)
    if where.get("fails"):
        assert re.search(r"(ERROR|ImportError): no cuda device can compute here: .*It needs an NVIDIA GPU", printed)
        return
    for part, pattern in PRINTS.items():
        if part in code:
            assert re.search(pattern, printed), printed
    if "-std=c++11" in code:  # over the one that setup.py has built
        assert "SIMD Level" in target.run("import tensor_ops_cpp as t; print(t.get_optimization_info(), t.__file__)")


# ---- the configuration ----

def test_configuration(target):
    assert "used here: cpp\n" in target.setup("configure_backend --backend=cpp --force")
    assert json.loads((target.cpp_ext / "backend.json").read_text()) == {
        "preferred_backend": "cpp", "backend_priority": ["cuda", "opencl", "cpp", "python"], "force_backend": True}
    target.setup("configure_backend --backend=python --priority=opencl,cpp")
    told = target.run("from airllm import tensor_ops as t; print(t.get_backend(), t.get_backend_info()['config'])")
    assert told.startswith("python ") and "'backend_priority': ['opencl', 'cpp']" in told
    elsewhere = {"AIRLLM_BACKEND_CONFIG": str(target.folder / "other.json")}
    target.setup("configure_backend --backend=opencl", **elsewhere)  # preferred, though it is the processor
    assert "opencl" in target.run("from airllm import tensor_ops as t; print(t.get_backend())", **elsewhere)


@pytest.mark.parametrize("arguments,message", [
    ("--backend=cup", r'preferred_backend is "cup"; one of auto, cuda, opencl, cpp, python'),
    ("--priority=cpp,gpu", r'backend_priority has "gpu"'),
    ("--priority=cpp,cpp", r'backend_priority has "cpp"; each of .* at most once'),
    ("--force", r"force_backend is true, and preferred_backend names no backend"),
])
def test_wrong_configuration(arguments, message, target):
    assert re.search("ERROR: .*" + message, target.setup("configure_backend " + arguments, fails=True))
    assert not (target.cpp_ext / "backend.json").exists()


@pytest.mark.parametrize("text,message", [
    ("{", "Expecting property name"), ("[]", "it is no object of JSON"), ('{"prefer": "cpp"}', "unknown entry 'prefer'"),
    ('{"force_backend": "cpp"}', 'force_backend is "cpp"; true or false'),
    ('{"backend_priority": "cpp"}', 'backend_priority is "cpp"; a list'),
    ('{"backend_priority": [[]]}', "backend_priority has []"), ('{"preferred_backend": ["cpp"]}', 'preferred_backend is ["cpp"]'),
])
def test_wrong_file(text, message, target):
    (target.cpp_ext / "backend.json").write_text(text)
    told = target.run("from airllm import tensor_ops", fails=True)
    assert f"ValueError: {target.cpp_ext}/backend.json: {message}" in told, told


@pytest.mark.skipif(HAS_CUDA, reason="there is a CUDA device here")
def test_forced_and_not_there(target):
    assert "used here: none; ImportError: no backend" in target.setup("configure_backend --backend=cuda --force")
    told = target.run("from airllm import tensor_ops", fails=True)
    assert re.search(r"ImportError: no backend of \S*backend.json can be used here: cuda: no cuda device", told)


# ---- without building, without others' packages ----

def test_not_built(tmp_path):
    """The package as it is installed."""
    fresh = Target(tmp_path)
    told = fresh.run("import sys\nsys.modules['psutil'] = sys.modules['torch'] = None\n"
                     "from airllm import tensor_ops, tensor_ops_hybrid\nimport numpy as np\n"
                     "print(tensor_ops.get_backend(), tensor_ops.silu(np.float32([0, 1])))\n"
                     "tensor_ops_hybrid.print_backend_info()\n"
                     "print(tensor_ops_hybrid.get_backend_info()['has_cpp_ext'])\n")
    assert re.search(r"^(python|opencl|cuda) \[0\. +0\.7310586\]\nC\+\+ extension: no \(tensor_ops_cpp is not built: cd .*"
                     r"python setup.py build_ext --inplace\)\n(.*\n)*False\n$", told), told
    assert "ERROR: tensor_ops_cpp is not built" in fresh.run("python test_cpp_ext.py", folder=fresh.cpp_ext, language="bash",
                                                             fails=True)
    assert "No module named 'tensor_ops_cpp'" in fresh.run("import tensor_ops_cpp", fails=True)
    assert "ERROR: there is no C++ compiler: apt-get install g++" in fresh.setup("build_ext --inplace", fails=True, CXX="no-c++")


def test_built_for_another_version(tmp_path):
    fresh = Target(tmp_path)
    header = fresh.cpp_ext / "include/shoal/types.h"
    header.write_text(re.sub(r"(VERSION_PATCH) \d+", r"\1 99", header.read_text()))
    fresh.run(BUILD, folder=fresh.cpp_ext, language="bash")
    told = fresh.run("import tensor_ops_cpp", fails=True)
    assert re.search(r"ImportError: tensor_ops_cpp was built for Shoal \d+\.\d+\.99, and .* is of version .*build it again",
                     told), told


# ---- the operations, in this process ----

@pytest.fixture
def ops(target, monkeypatch):
    monkeypatch.syspath_prepend(str(target.folder / "mix/target"))
    for name in [name for name in sys.modules if name.startswith(("airllm", "tensor_ops_"))]:
        monkeypatch.delitem(sys.modules, name)
    from airllm import tensor_ops
    return tensor_ops


def test_element_types(ops):
    import ml_dtypes
    x = np.random.default_rng(0).standard_normal((17, 100)) * 3
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5), (np.float16, 4e-3), (ml_dtypes.bfloat16, 3e-2)):
        got = ops.gelu(x.astype(dtype))
        want = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
        assert got.dtype == dtype and np.abs(got.astype(np.float64) - want).max() <= tolerance * 10
    np.testing.assert_allclose(ops.rms_norm([[3.0, 4.0]], [1.0, 2.0], eps=0), [[3 / 12.5 ** 0.5, 8 / 12.5 ** 0.5]])


def test_many_threads_at_once(ops):
    from concurrent.futures import ThreadPoolExecutor
    arrays = [np.full((64, 64), i, np.float32) for i in range(32)]
    with ThreadPoolExecutor(8) as pool:
        for x, got in zip(arrays, pool.map(ops.silu, arrays)):
            np.testing.assert_allclose(got, x / (1 + np.exp(-x)), rtol=1e-6)


def test_references_are_given_back(ops):
    """Nothing that a call takes is kept, also when it fails."""
    x, w = np.ones((4, 8), np.float32), np.ones(8, np.float32)
    strided, foreign = np.zeros(5, [("gap", "i1"), ("x", "f4")])["x"], x.astype(">f4")

    def all_ways():
        ops.rms_norm(x, w), ops.silu(strided), ops.gelu(x)
        for wrong in (foreign, np.arange(3), np.array(["a"])):
            with pytest.raises(ValueError):
                ops.silu(wrong)
        with pytest.raises(ValueError):
            ops.rms_norm(x, w[:3])
    all_ways()
    held = [sys.getrefcount(value) for value in (x, w, strided, foreign, np.dtype("float32"))]
    for _ in range(100):
        all_ways()
    after = [sys.getrefcount(value) for value in (x, w, strided, foreign, np.dtype("float32"))]
    assert all(abs(a - b) < 20 for a, b in zip(held, after)), (held, after)


def test_a_device_that_fails(ops, monkeypatch):
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    want = ops.silu(x)

    class Failing:
        def silu(self, x):
            raise shoal.LostError("the device is gone")
    monkeypatch.setattr(ops, "_backends", {"opencl": Failing(), **ops._backends})
    with pytest.warns(RuntimeWarning, match="silu: opencl has failed .the device is gone.; cpp goes on"):
        np.testing.assert_array_equal(ops.silu(x), want)
    assert ops.get_backend() == "cpp" and "gone" in ops.get_backend_info()["unavailable_backends"]["opencl"]
    monkeypatch.setattr(ops, "_backends", {"opencl": Failing()})
    with pytest.raises(shoal.LostError, match="the device is gone"):
        ops.silu(x)
