"""Tests the backends that are here against NumPy: python test_cpp_ext.py

The extension tensor_ops_cpp has to be built; tensor_ops_cuda and tensor_ops_opencl are tested where there is such a
device. The exit code is 0 only if all is right.
"""
import importlib
import sys

import numpy as np
import tensor_ops_config
import tensor_ops_truth as truth


def test_values(module):
    for what, error in truth.errors(module):
        assert error <= truth.TOLERANCE, f"{what} is off by {error:.1e}"


def test_views(module):
    x = np.random.default_rng(1).standard_normal((40, 64)).astype(np.float32)
    records = np.zeros(5, [("gap", "i1"), ("x", "f4")])  # misaligned, and no whole elements apart
    records["x"] = 1, -2, 3, -4, 0
    for view in (x.T, x[::3, ::-2], x[5:5], np.broadcast_to(x[0], (3, 64)), x[1, 1:], records["x"]):
        weight = np.linspace(-1, 1, view.shape[-1], dtype=np.float32)[::-1]
        for name in ("rms_norm", "silu", "gelu"):
            arguments = truth.arguments(name, view, weight)
            got, want = getattr(module, name)(*arguments), getattr(truth, name)(*arguments)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=truth.TOLERANCE, err_msg=name)
    np.testing.assert_allclose(module.matmul(x.T, x), x.T @ x, rtol=1e-4, atol=1e-4)


def test_types(module):
    x = np.linspace(-3, 3, 24).reshape(4, 6)
    for dtype, tolerance in (("float64", 1e-12), ("float16", 4e-3)):
        got = module.rms_norm(x.astype(dtype), np.ones(6, dtype), eps=1e-5)
        assert got.dtype == dtype, f"{got.dtype} of {dtype}"
        assert abs(got - truth.rms_norm(x, np.ones(6), 1e-5)).max() <= tolerance, dtype


def test_not_numbers(module):
    with np.errstate(all="ignore"):
        got = module.silu(np.array([np.nan, np.inf, -np.inf, -200, 200], np.float32))
    assert np.isnan(got[0]) and got[1] == np.inf and got[3] == 0 and got[4] == 200, got


def test_errors(module):
    x, weight = np.ones((2, 4), np.float32), np.ones(4, np.float32)
    for what, operation, arguments in (
            ("a weight that is too short", "rms_norm", (x, weight[:3])),
            ("a weight of another type", "rms_norm", (x, weight.astype(np.float64))),
            ("integers", "silu", (np.arange(3),)),
            ("texts", "gelu", (np.array(["a"]),)),
            ("foreign bytes", "silu", (x.astype(">f4"),)),
            ("shapes that do not fit", "matmul", (x, x)),
            ("no axes", "rms_norm", (np.float32(1), weight))):
        try:
            getattr(module, operation)(*arguments)
        except ValueError as error:
            assert len(str(error)) > 10, f"{what}: {error}"
        else:
            raise AssertionError(f"{operation} takes {what}")


TESTS = [test_values, test_views, test_types, test_not_numbers, test_errors]


def main():
    for name, module_name in tensor_ops_config.BACKENDS.items():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name != module_name:
                raise
            sys.exit(f"ERROR: {module_name} is not built: python setup.py build_ext --inplace")
        except ImportError as error:
            print(f"{module_name}: SKIP: {error}")
            continue
        for test in TESTS:
            test(module)
        print(f"{module_name}: {len(TESTS)} tests passed")
    import tensor_ops_cpp
    print(tensor_ops_cpp.get_optimization_info())
    print("All tests passed")


if __name__ == "__main__":
    main()
