"""Detects, builds, tests and measures the backends of this machine: python detect_and_benchmark.py [--json FILE]

The exit code is 0 only if all four steps are done.
"""
import argparse
import importlib
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = (32, 512), (128, 2048), (256, 4096)
SECONDS = 0.1  # for each figure


def run(*arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=HERE, check=False)
    if done.returncode:
        sys.exit(f"ERROR: {' '.join(arguments)} has failed; see above")


def seconds_of(call):
    """The least time of a call, after one that may compile."""
    call()
    end, best = time.perf_counter() + SECONDS, float("inf")
    while time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begun)
    return best


def measure():
    """[{operation, shape, backend, seconds}], with the backend "numpy" beside those that are here."""
    import numpy as np
    import tensor_ops_config
    import tensor_ops_truth
    modules = {"numpy": tensor_ops_truth}
    for backend, name in tensor_ops_config.BACKENDS.items():
        try:
            modules[backend] = importlib.import_module(name)
        except ImportError:
            continue
    figures = []
    for shape in SHAPES:
        x, weight = np.random.randn(*shape).astype(np.float32), np.ones(shape[-1], np.float32)
        for operation in ("rms_norm", "silu", "gelu"):
            arguments = tensor_ops_truth.arguments(operation, x, weight)
            for backend, module in modules.items():
                function = getattr(module, operation)
                figures.append({"operation": operation, "shape": shape, "backend": backend,
                                "seconds": seconds_of(lambda f=function, a=arguments: f(*a))})
    return figures


def show(figures):
    """A table of milliseconds, and how many times as fast as NumPy."""
    backends = list(dict.fromkeys(figure["backend"] for figure in figures))
    print(f"{'OPERATION':<10}{'SHAPE':<10}" + "".join(f"{name.upper():>18}" for name in backends))
    for first in range(0, len(figures), len(backends)):
        row = figures[first:first + len(backends)]
        cells = [f"{1e3 * f['seconds']:.3f} ms {row[0]['seconds'] / f['seconds']:5.1f}x" for f in row]
        print(f"{row[0]['operation']:<10}{'x'.join(map(str, row[0]['shape'])):<10}" + "".join(f"{c:>18}" for c in cells))
    totals = {name: sum(f["seconds"] for f in figures if f["backend"] == name) for name in backends[1:]}
    best = min(totals, key=totals.get)
    print(f"\nFastest here: {best}. To use it first: python setup.py configure_backend --backend={best}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the figures to a file, in seconds")
    options = parser.parse_args()
    for step, (title, do) in enumerate((
            ("Detect system capabilities", lambda: run("setup.py", "--quiet", "test_capabilities")),
            ("Build the C++ extension", lambda: run("setup.py", "--quiet", "build_ext", "--inplace")),
            ("Test all available backends", lambda: run("test_cpp_ext.py")),
            ("Benchmark performance", None)), 1):
        print(f"\n=== Step {step} of 4: {title} ===", flush=True)
        if do:
            do()
    figures = measure()
    show(figures)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print("\nAll Steps Completed Successfully!")


if __name__ == "__main__":
    main()
