"""python/compat/cluster_matrix: the programs of the Cluster Matrix document, unchanged, in a network that owns the
document's addresses and where /dev/shm is empty: namespaces that each test makes. Skipped, with the reason, where these are
not permitted, or where the document is not beside the checkout."""
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import documents
import numpy as np
import pytest
import shoal
from cluster_matrix import commands, files

pytestmark = documents.needs("000")
ADDRESSES = ["192.168.2.100", "192.168.2.101", "192.168.2.102", "192.168.2.103", *(f"192.168.1.{i}" for i in range(10, 15))]
SPACE = ["unshare", "--net", "--mount", "sh", "-ec",
         "mount -t tmpfs tmpfs /dev/shm; ip link set lo up; for a in " + " ".join(ADDRESSES)
         + "; do ip address add $a/32 dev lo; done; exec \"$@\"", "sh"]
BLOCKS = {language: [code for _, code in documents.blocks("000", language)] for language in ("python", "bash", "cpp")}
CHECK = "\nassert np.abs(np.asarray(result) - expected).max() <= 1e-5 * np.abs(expected).max()\n"
NEEDS_ZMQ = pytest.mark.skipif(importlib.util.find_spec("zmq") is None, reason="there is no pyzmq: tools/install.sh test")
NEEDS_CMAKE = pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake: tools/install.sh test")


def block(part, language="python"):
    """The block that holds this part."""
    found = [code for code in BLOCKS[language] if part in code]
    assert found, f"no {language} block holds {part!r}"
    return found[0]


@pytest.fixture(scope="module")
def space():
    """What runs a command in a network of its own."""
    tried = subprocess.run([*SPACE, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip() or 'unshare failed'}")
    return SPACE


class Machine:
    """A folder in which programs are run, with the files that they name."""

    def __init__(self, folder, space):
        self.folder, self.space = folder, space
        dice = np.random.default_rng(0)
        self.a, self.b = (dice.standard_normal((48, 48)).astype(np.float32) for _ in range(2))
        for name, x in {"my_model.pt": self.a, "another_model.pt": self.b, "model.pt": self.a, "model_a.pt": self.a}.items():
            shoal.save(shoal.from_numpy(x), str(folder / name))
        files.write_whole(folder, "test.bin", files.encode(shoal.from_numpy(self.a)))
        np.save(folder / "a.npy", self.a)
        np.save(folder / "b.npy", self.b)
        # What the blocks call and this machine need not have: each says what it was asked.
        commands_ = folder / "bin"
        commands_.mkdir()
        for name, line in {"sudo": '"$@"', "python": f'{sys.executable} "$@"', "python3": f'{sys.executable} "$@"',
                           **{n: f'echo {n} "$@"' for n in ("pip", "apt", "radeontop", "nvtop", "iftop", "inotifywait")}}.items():
            (commands_ / name).write_text(f"#!/bin/sh\n{'exec ' if line[0] != 'e' else ''}{line}\n")
            (commands_ / name).chmod(0o755)
        (folder / "run").mkdir(mode=0o700)
        keep = ("PYTHONPATH", "SHOAL", "XDG_CACHE_HOME")
        self.environment = {**{k: v for k, v in os.environ.items() if k in keep}, "HOME": str(folder),
                            "PATH": f"{commands_}:{os.environ['PATH']}:/usr/sbin:/sbin", "XDG_RUNTIME_DIR": str(folder / "run")}

    def run(self, code, language="python", **variables):
        if language == "python":
            code = "import numpy as np\nfrom cluster_matrix import cluster, cluster_matrix\n" \
                "a, b = np.load('a.npy'), np.load('b.npy')\n" + code
        return documents.run(code, self.folder, language, prefix=self.space, **self.environment, **variables)

    def serve(self, code, until, folder=None, then=None):
        """What a program prints that serves until it is ended: once it has printed `until`, `then()` is called."""
        path = self.folder / "serve.bash"
        path.write_text(code)
        with open(self.folder / "printed", "w+") as out:
            process = subprocess.Popen([*self.space, "bash", "-e", path], cwd=folder or self.folder, env=self.environment,
                                       stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)

            def printed():
                return pathlib.Path(out.name).read_text()
            end = time.monotonic() + 60
            try:
                while until not in printed():
                    assert process.poll() is None and time.monotonic() < end, printed()
                    time.sleep(0.02)
                if then:
                    then(process)
            finally:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(30)
            return printed()


@pytest.fixture
def machine(tmp_path_factory, space):
    folder = pathlib.Path(subprocess.check_output(["mktemp", "-d", "/tmp/shoal-XXXXXX"], text=True).strip())
    yield Machine(folder, space)
    shutil.rmtree(folder)


# ---- Python ----

NODES = "nodes = ['192.168.2.100', '192.168.2.102', '192.168.2.103']\npercentages = [0.5, 0.25, 0.25]\n" \
    "backends = ['llama', 'torch', 'llama']\n"
TWO = NODES + "matrixA = cluster_matrix('my_model.pt', nodes, percentages, backends, split_matrix=True)\n" \
    "matrixB = cluster_matrix('another_model.pt', nodes, percentages, backends)\n"


def test_the_document_is_read():
    assert len(BLOCKS["python"]) == 21 and len(BLOCKS["bash"]) == 10


@pytest.mark.parametrize("part,before,after", [
    ("3. Compute - distributed across all hardware!", "", "expected = a @ b" + CHECK),
    ("# Mode 1: Split matrices across nodes", NODES + "model_path = 'my_model.pt'\n",
     "assert [s[0] for s in matrixA.shard_shapes] == [24, 12, 12] and matrixB.shard_shapes == [(48, 48)] * 3\n"
     "result, expected = matrixA.cluster_operation(matrixB), a @ a" + CHECK),
    ("transposeB=True, send_back=True", TWO, "result, expected = matrixA.cluster_operation(matrixB, transposeA=False, "
     "transposeB=True, send_back=True), a @ b.T" + CHECK),
    ("GGML-compatible binary format", "", "import struct\nmatrixA = cluster_matrix('test.bin', ['192.168.2.100'], [1.0])\n"
     "assert struct.unpack('<5i', open('test.bin', 'rb').read(20)) == (4, 1, 1, 48, 48)\n"
     "result, expected = matrixA.compute(), a" + CHECK),
    ("parallel_interface_file_transfer", TWO + "filename, target_ip = 'test.bin', '192.168.2.102'\n",
     "assert matrixA.parallel_interface_file_transfer(filename, target_ip) == {target_ip: 48 * 48 * 4}\n"),
    ("Three commands to same IP", "", "matrixA = cluster_matrix(a, node_IP_list, [0.5, 0.25, 0.25], split_matrix=True)\n"
     "assert len(set(matrixA.slots)) == 3\nresult, expected = matrixA.cluster_operation(b), a @ b" + CHECK),
    ("# Level 1: Keep distributed", TWO, "expected = a @ b" + CHECK
     + "kept = matrixA.cluster_operation(matrixB, send_back=False)\n"
     "result, expected = kept.cluster_operation(matrixB), a @ b @ b" + CHECK),
    ("class DistributedTransformer", "", "result, expected = DistributedTransformer().attention(a, b, a), a @ b.T @ a" + CHECK),
    ("# Check if files are distributed", "import os\nos.environ['LOCAL_RAM_FOLDER'] = '/dev/shm/matrix_shards/'\n" + TWO,
     "assert sorted(os.listdir('/dev/shm/matrix_shards')) == sorted(os.path.basename(p) for p in "
     "matrixA.matrix_file_paths_list + matrixB.matrix_file_paths_list)\n"),
    ("matrixA.compute()", "", "expected = a" + CHECK),
    ('cluster_matrix("test.bin", ["192.168.2.100"]', "", "expected = a @ a.T" + CHECK)])
def test_program_of_the_document(machine, part, before, after):
    printed = machine.run(before + block(part) + after)
    if "Check if files" in part:
        assert "File paths: ['/dev/shm/matrix_shards/my_model_shard_0.bin'" in printed
        assert "Original shape: [48, 48]" in printed
        assert "Connected nodes: ['192.168.2.100', '192.168.2.102', '192.168.2.103']" in printed


def test_lists_of_the_document_have_other_lengths(machine):
    """Neighbouring blocks: five nodes, four shares, five backends."""
    code = block("# Mix ANY hardware") + block("# Match work to capability") + block("# Mix computation backends")
    printed = machine.run(code + "try:\n    cluster_matrix(a, nodes, percentages, backends)\n"
                          "except ValueError as error:\n    print(error)\n")
    assert "node_IP_list has 5, node_percentages has 4, back_end_select_list has 5" in printed


# ---- the command line ----

def test_variables_and_watching(machine):
    """The exports, what then counts, and shards in the folder that the document watches."""
    printed = machine.run(block("export HEAD_NODE_PULL_PORT_C", "bash") + "python3 -m cluster_matrix\n"
                          "export LOCAL_PROJECT_DIR=$HOME\n"
                          "python3 -c \"from cluster_matrix import cluster_matrix as c; c('my_model.pt', ['192.168.2.100', "
                          "'192.168.2.101'], [0.5, 0.5], split_matrix=True)\"\nls /dev/shm/matrix_shards/\n"
                          + block("inotifywait", "bash"), "bash")
    exports = re.findall(r"export (\w+)=", block("export HEAD_NODE_PULL_PORT_C", "bash"))
    assert len(exports) == 14
    for name in exports:
        assert re.search(rf"^{name}=\S+  \(environment\)", printed, re.M), name
    assert "my_model_shard_0.bin\nmy_model_shard_1.bin\n" in printed and "inotifywait -m /dev/shm/matrix_shards/" in printed


@pytest.mark.parametrize("part", ["pip install torch numpy pyzmq", "# On each computer:"])
def test_node_server(machine, part):
    def use(process):
        """A program in this network finds it, and what was started ends with it."""
        inside = ["nsenter", "--net", "--mount", "--target", str(process.pid),
                  f"--wd={machine.folder}"]
        printed = documents.run(block("matrixA.compute()") + "print(result.shape, len(matrixA.llama_socket_pool))\n"
                                "import shoal\nprint(shoal.status().address)\n", machine.folder, prefix=inside,
                                **machine.environment)
        assert "48" in printed and "shm:cluster-matrix" in printed, printed
    printed = machine.serve(block(part, "bash"), "\ndevice ", then=use)
    assert "gateway:" not in printed and "HEAD_NODE_PULL_PORT_C=7779  (default)" in printed
    assert re.search(r"^device \d+: \S+/cpu\S*, .+$", printed, re.M), printed
    assert ("pip install torch numpy pyzmq\n" in printed) == part.startswith("pip")


@NEEDS_CMAKE
@pytest.mark.parametrize("part,told", [("-DGGML_METAL=ON", ["VULKAN: by libggml", "CUDA: by", "METAL: by", "BLAS: Shoal"]),
                                       ("cmake -B build -DGGML_BLAS=ON", ["BLAS: Shoal's own products"])])
def test_configuring_the_engine(machine, part, told):
    shutil.copytree(documents.ROOT / "python/compat/cluster_matrix/ggml", machine.folder / "ggml")
    printed = machine.run("cd ggml\n" + block(part, "bash") + "cmake --build build\nls build/bin\n", "bash")
    for text in told:
        assert text in printed, printed
    assert "llama_zmq_server\nmatrix_zmq_server\n" in printed


@NEEDS_CMAKE
@NEEDS_ZMQ
def test_building_and_running_the_engine(machine):
    shutil.copytree(documents.ROOT / "python/compat/cluster_matrix/ggml", machine.folder / "ggml")
    printed = machine.serve(block("./bin/llama_zmq_server", "bash"), "gateway: ")
    assert "gateway: text commands at 127.0.0.1:7779, files in /dev/shm/matrix_shards" in printed


def test_drivers(machine):
    assert machine.run(block("mesa-vulkan-drivers", "bash"), "bash") == "apt install mesa-vulkan-drivers vulkan-tools\n"


# ---- the gateway ----

@NEEDS_ZMQ
def test_connecting(machine):
    """What the document sends to the head's port is refused, not run."""
    (machine.folder / "bin/test").write_text("#!/bin/sh\ntouch $HOME/was-run\n")
    (machine.folder / "bin/test").chmod(0o755)
    (machine.folder / "connect.py").write_text(block("socket.send_string"))
    # The program ends without waiting for its message to leave: it is run until one has arrived.
    printed = machine.serve("python3 -m cluster_matrix.node_server --gateway --address 192.168.2.100 --unencrypted-network &\n"
                            "until grep -qs gateway: printed; do sleep 0.05; done\n"
                            "until grep -q refused printed; do python3 connect.py; done\nwait\n", "gateway: refused")
    assert "Connected!" in printed and "gateway: refused: unknown command 'test'" in printed
    assert not (machine.folder / "was-run").exists()
    printed = documents.run("import sys\nsys.argv[1:] = ['--gateway', '--address', '192.168.2.100']\n"
                            "from cluster_matrix.node_server import main\nsys.exit(main())\n", machine.folder,
                            fails=True, prefix=machine.space, **machine.environment)
    assert "192.168.2.100: text commands have neither encryption nor passwords" in printed


def test_lines_of_the_engine():
    code = block("GPU ID 2", "cpp")
    line = re.search(r'"(llama [^"]*) \.\.\."', code)[1]
    made = commands.parse(f"{line} 0 mul 2")
    assert (made.operands, made.gpu, made.device) == ([("matrix.bin", False), ("matrix2.bin", False)], True, 2)
    made = commands.parse(re.search(r'Received: "([^"]*)"', block("// Received:", "cpp"))[1])
    assert (made.operands[0][0], made.send_back, made.operation, made.dims) == ("/path/A.bin", -5, "mul", 2)
    with pytest.raises(ValueError, match="damaged: 15 bytes .* have it sent again"):  # "Request resend"
        files.decode(files.encode(shoal.ones(2, 2))[:-1], "m")


def test_sizes_of_shards():
    """The table of the benchmark: MB of shards of 4096 columns, beside a header of 20 bytes."""
    for rows, megabytes in (1021, 16.7), (1025, 16.8), (2050, 33.6):
        assert (len(files.encode(shoal.zeros(rows, 4096))) - 20) / 1e6 == pytest.approx(megabytes, abs=0.05)
