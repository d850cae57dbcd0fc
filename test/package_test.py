"""Installing: wheels into another Python, `meson install`, Debian packages. BUILD is the build folder.

Others find what is installed here; nothing of the build tree is used.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=600, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def clean():
    """The environment without what leads to the build tree."""
    return {name: value for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "VIRTUAL_ENV", "SHOAL", "SHOAL_HUB", "DESTDIR")}


def other_python():
    """A Python of another version than this one, 3.11 or later: on PATH, or by pyenv."""
    places = [pathlib.Path(folder) for folder in os.environ["PATH"].split(":")]
    places += sorted(pathlib.Path.home().glob(".pyenv/versions/*/bin"))
    for minor in range(20, 10, -1):
        if minor == sys.version_info.minor:
            continue
        for place in places:
            found = place / f"python3.{minor}"
            if found.is_file() and subprocess.run([found, "-c", "import ensurepip, venv"],
                                                  capture_output=True).returncode == 0:
                return found
    return None


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    run(ROOT / "tools/wheel.sh", folder)
    return sorted(folder.iterdir())


def test_the_wheels_hold_what_runs(wheels):
    names = [wheel.name for wheel in wheels]
    assert len(names) == 5
    assert re.fullmatch(r"shoal-[\d.]+-cp311-abi3-manylinux_2_\d+_x86_64\.whl", names[0]), names
    assert re.fullmatch(r"shoal_airllm-[\d.]+-py3-none-any\.whl", names[1]), names
    assert re.fullmatch(r"shoal_cluster_matrix-[\d.]+-py3-none-any\.whl", names[2]), names
    assert re.fullmatch(r"shoal_gt-[\d.]+-py3-none-any\.whl", names[3]), names
    assert re.fullmatch(r"shoal_pcp-[\d.]+-py3-none-any\.whl", names[4]), names
    assert {"airllm/tensor_ops.py", "airllm/cpp_ext/tensor_ops_cpp.cpp", "airllm/cpp_ext/setup.py",
            "airllm/cpp_ext/include/shoal/kernels.h"} <= set(zipfile.ZipFile(wheels[1]).namelist())
    assert {"cluster_matrix/node_server.py", "cluster_matrix/gateway.py", "cluster_matrix/ggml/CMakeLists.txt"} <= \
        set(zipfile.ZipFile(wheels[2]).namelist())
    files = zipfile.ZipFile(wheels[0]).namelist()
    assert any(name.endswith("shoal/_shoal.abi3.so") for name in files)
    unwanted = [name for name in files if name.startswith(("gt/", "airllm/", "cluster_matrix/", "pcp/")) or name.endswith((".h", ".pc", ".a"))
                or "example" in name or "libX" in name or "libcairo" in name]
    assert unwanted == []
    shown = run(sys.executable, "-m", "auditwheel", "show", wheels[0])
    assert "is consistent with" in shown and "manylinux_2_" in shown


def test_an_empty_environment_of_another_python(wheels, tmp_path):
    python = other_python()
    if python is None:
        pytest.skip("there is no other Python here, 3.11 or later, with venv")
    run(python, "-m", "venv", tmp_path / "env", env=clean())
    bin_ = tmp_path / "env/bin"
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wheels,
        env=clean())
    version = run(bin_ / "shoal", "version", env=clean(), cwd=tmp_path).strip()
    assert version == f"shoal {wheels[0].name.split('-')[1]}"
    assert "backend cpu" in run(bin_ / "shoal", "doctor", env=clean(), cwd=tmp_path)
    told = run(bin_ / "python", "-c", "import shoal, gt, sys; print(shoal.__version__, "
               "shoal.__file__.startswith(sys.prefix), gt.tensor([1.0]).data.numpy())",
               env=clean(), cwd=tmp_path)
    assert told == f"{version.split()[1]} True [1.]\n"
    told = run(bin_ / "python", "-c", "from cluster_matrix import cluster_matrix as c; print(c([[1.0, 2.0]], ['a', 'b'], "
               "[0.5, 0.5]).cluster_operation([[3.0], [4.0]]))", env=clean(), cwd=tmp_path)
    assert told == "[[11.]]\n"
    # The extension, built where the package is installed; it takes a compiler and Python's headers.
    run(bin_ / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "setuptools", env=clean())
    cpp_ext = next((tmp_path / "env/lib").glob("python3.*/site-packages/airllm/cpp_ext"))
    told = run(bin_ / "python", "-c", "from airllm import tensor_ops as t; print(t.get_backend())", env=clean(), cwd=tmp_path)
    assert told == "python\n"
    run(bin_ / "python", "setup.py", "build_ext", "--inplace", env=clean(), cwd=cpp_ext)
    told = run(bin_ / "python", "-c", "from airllm import tensor_ops as t; print(t.get_backend(), t.silu([0.0]))", env=clean(),
               cwd=tmp_path)
    assert told == "cpp [0.]\n"
    # Digits, which lie in scikit-learn: in this Python's, as files.
    import sklearn
    place = tmp_path / "sklearn/datasets/data"
    place.mkdir(parents=True)
    (tmp_path / "sklearn/__init__.py").touch()
    shutil.copy(pathlib.Path(sklearn.__file__).parent / "datasets/data/digits.csv.gz", place)
    told = run(bin_ / "python", ROOT / "examples/digits.py", "--steps", 300, "--out", tmp_path / "run",
               env=clean() | {"PYTHONPATH": str(tmp_path)}, cwd=tmp_path)
    assert float(told.split("unseen right")[-1].split()[0]) > 0.9, told


def test_meson_install_and_pkg_config(tmp_path):
    run("meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "runtime,devel", "--destdir", tmp_path)
    options = json.loads(run("meson", "introspect", "--buildoptions", BUILD))
    prefix = next(option["value"] for option in options if option["name"] == "prefix")
    root = tmp_path / prefix.lstrip("/")
    found = next(root.rglob("shoal.pc"))
    environment = clean() | {"PKG_CONFIG_PATH": str(found.parent), "PKG_CONFIG_SYSROOT_DIR": str(tmp_path)}
    version = run("pkg-config", "--modversion", "shoal", env=environment).strip()
    source = tmp_path / "program.c"
    source.write_text("""#include <shoal/shoal.h>
#include <stdio.h>
#if SHOAL_VERSION_NUMBER < SHOAL_MAKE_VERSION(0, 1, 0)
#error too old
#endif
int main(void) {
    printf("%s %d.%d.%d\\n", shoal_version(), SHOAL_VERSION_MAJOR, SHOAL_VERSION_MINOR, SHOAL_VERSION_PATCH);
    return 0;
}
""")
    flags = run("pkg-config", "--cflags", "--libs", "shoal", env=environment).split()
    run("cc", "-std=c11", "-Wall", "-Werror", source, "-o", tmp_path / "program", *flags)
    libraries = {"LD_LIBRARY_PATH": str(found.parent.parent)}
    assert run(tmp_path / "program", env=clean() | libraries) == f"{version} {version}\n"
    assert run(root / "bin/shoal", "version", env=clean() | libraries) == f"shoal {version}\n"
    assert (root / "lib/systemd/user/shoal-hub.service").is_file()
    assert not list(tmp_path.rglob("_shoal*.so"))  # Python's package comes by pip


@pytest.mark.skipif(shutil.which("dpkg-buildpackage") is None or shutil.which("dh") is None,
                    reason="there is no dpkg-buildpackage with debhelper")
def test_debian_packages(tmp_path):
    run(ROOT / "tools/deb.sh", tmp_path)
    packages = {path.name.split("_")[0]: path for path in tmp_path.glob("*.deb")}
    assert {"libshoal0", "libshoal-dev", "shoal", "python3-shoal"} <= set(packages)
    for name in "libshoal0", "shoal", "python3-shoal":
        run("dpkg-deb", "-x", packages[name], tmp_path / "root")
    libraries = next((tmp_path / "root/usr/lib").glob("*-linux-gnu*"))
    environment = clean() | {"LD_LIBRARY_PATH": str(libraries)}
    assert run(tmp_path / "root/usr/bin/shoal", "version", env=environment).startswith("shoal ")
    made = run(sys.executable, "-c", "import shoal; print(shoal.ones(2).tolist())", cwd=tmp_path,
               env=environment | {"PYTHONPATH": str(tmp_path / "root/usr/lib/python3/dist-packages")})
    assert made == "[1.0, 1.0]\n"
    for page in "shoal.1.gz", "shoal-matmul.1.gz":
        assert (tmp_path / "root/usr/share/man/man1" / page).is_file()
    for completion in "bash-completion/completions/shoal", "zsh/vendor-completions/_shoal", \
            "fish/vendor_completions.d/shoal.fish":
        assert (tmp_path / "root/usr/share" / completion).is_file()
    needs = run("dpkg-deb", "-f", packages["shoal"], "Depends")
    assert "libshoal0 (=" in needs and "libmicrohttpd" in needs
