"""`cluster_matrix`: a matrix over the nodes of a list, and operations between such matrices.

It is one of Shoal's tensors and a plan: which rows or columns lie at which node. A result is the mathematical one, whatever
the plan is.
"""
import os
import pathlib

import shoal

from . import arguments, config, files, operations, pool

# Spellings that programs use for the same.
_SPELLINGS = {"TransposeA": "transposeA", "TransposeB": "transposeB", "send_back_result": "send_back",
              "Transpose": "transpose"}


def _flags(positional, named, defaults):
    """The values of named flags, also given by position or in another spelling."""
    made, names = dict(defaults), list(defaults)
    if len(positional) > len(names):
        raise TypeError(f"{len(positional)} arguments after the first, for {', '.join(names)}")
    made.update(zip(names, positional))
    for name, value in named.items():
        name = _SPELLINGS.get(name, name)
        if name not in made:
            raise TypeError(f"no argument '{name}'; there are {', '.join(names)}")
        made[name] = value
    return made.values()


class cluster_matrix:
    """A matrix of 2 to 4 axes over a list of nodes.

    matrix_file_path: a file (.pt, .bin, .npy, .safetensors, .gguf; "file.pt:key" where it holds several), a tensor or an
    array. Then, in any order by position: addresses, shares that sum to 1 (left out: by the devices' speeds), backends,
    choices of GPU; lists of one length, in which an address may stand several times, for as many devices of it.
    split_matrix: each node holds its share along the axis `dim`, else the whole. matrix_labeling: "a" or "b": an operand of
    System 2, a grid of results. auto_set_up: [system, "save" or "load"]: shards are written into the disk folder, or
    read from there. save_bin_matrix=False: nothing is written into the RAM folder, even where LOCAL_RAM_FOLDER is set.
    normalise: shares that do not sum to 1 are scaled. Raises ValueError, TypeError or FileNotFoundError.
    """

    def __init__(self, matrix_file_path, *lists, **named):
        given = arguments.bind(lists, named)
        nodes = given.get("node_IP_list") or getattr(given.get("cluster_zmq_object"), "node_IP_list", None)
        self._session = pool.session(len(nodes or ()))
        self.cluster_zmq_object = given.get("cluster_zmq_object")
        vars(self).update(arguments.lists(given, self._all_nodes))
        self.split_matrix = given.get("split_matrix", False)
        self.matrix_labeling = given.get("matrix_labeling", "")
        if self.matrix_labeling not in ("", "a", "b"):
            raise ValueError(f"cluster_matrix: matrix_labeling {self.matrix_labeling!r}: '', 'a' or 'b'")
        self.matrix_name = files.checked_name(given.get("matrix_name") or _named(matrix_file_path))
        self.slots = pool.slots_of(self.node_IP_list, self.back_end_select_list, self.CPU_GPU_select_list, self._session)
        self.matrix_file_paths_list = []
        system, step = given.get("auto_set_up") or (0, "")
        if system == 2 and not self.matrix_labeling:
            self.matrix_labeling = "a"
        if step.startswith("load"):
            self._take(self._stored(config.folder("LOCAL_DISK_FOLDER"), given.get("dim", 0)), given.get("dim", 0))
        else:
            self._take(files.tensor(matrix_file_path), given.get("dim", 0))
        if step.startswith("save"):
            self._save(config.folder("LOCAL_DISK_FOLDER"), self.split_matrix)
        if given.get("save_bin_matrix", True) and config.is_set("LOCAL_RAM_FOLDER"):
            self._save(config.folder("LOCAL_RAM_FOLDER"), self.split_matrix)

    def _all_nodes(self):
        """An address for each device of the pool, where a program names none."""
        return [f"{s.worker}/{s.name}" for s in self._session.status().slots if s.compute]

    def _take(self, tensor, dim):
        """Has this tensor from now on, laid as the plan says."""
        self.OG_matrix_shape = list(tensor.shape)
        if not isinstance(dim, int) or not -tensor.ndim <= dim < tensor.ndim:
            raise ValueError(f"cluster_matrix: a matrix of the shape {self.OG_matrix_shape} has no axis {dim}")
        self.dim = dim % tensor.ndim
        if self.node_percentages is None:
            weights = {s.slot: s.weight for s in self._session.status().slots}
            each = [weights[slot] / self.slots.count(slot) for slot in self.slots]
            self.node_percentages = [w / sum(each) for w in each] if sum(each) else [1 / len(each)] * len(each)
        self._tensor = tensor
        if self.split_matrix:
            self._tensor = pool.place(tensor, self.dim, self._lengths(tensor.shape[self.dim]), self.slots)

    def _made(self, tensor, dim, name):
        """A result at the nodes of this matrix."""
        made = object.__new__(cluster_matrix)
        vars(made).update(vars(self), matrix_name=name, dim=dim, split_matrix=True, OG_matrix_shape=list(tensor.shape),
                          matrix_file_paths_list=[], _tensor=tensor)
        return made

    # ---- what it is ----

    @property
    def tensor(self):
        """The shoal.Tensor."""
        return self._tensor

    @property
    def shape(self):
        """The lengths of the axes, a tuple."""
        return tuple(self._tensor.shape)

    @property
    def dtype(self):
        """The element type, of Shoal."""
        return self._tensor.dtype

    @property
    def T(self):
        """The transpose: the last two axes exchanged. It lies as the planner lays it."""
        made = self._made(operations.turned(self._tensor, True), 0, self.matrix_name)
        made.split_matrix = False
        return made

    @property
    def llama_socket_pool(self):
        """{address: slots of the pool} of the nodes."""
        made = {}
        for address, slot in zip(self.node_IP_list, self.slots):
            made.setdefault(address, []).append(slot)
        return made

    @property
    def shard_shapes(self):
        """The shape of what each node holds, in the order of the list."""
        if not self.split_matrix:
            return [self.shape] * len(self.slots)
        return [tuple(n if a == self.dim else m for a, m in enumerate(self.shape))
                for n in self._lengths(self.shape[self.dim])]

    @property
    def node_matrices(self):
        """What each node holds, as shoal.Tensors."""
        if not self.split_matrix:
            return [self._tensor] * len(self.slots)
        made, at = [], 0
        for n in self._lengths(self.shape[self.dim]):
            made.append(self._tensor.narrow(self.dim, at, n))
            at += n
        return made

    def __repr__(self):
        how = f"axis {self.dim}: {[s[self.dim] for s in self.shard_shapes]}" if self.split_matrix else "whole"
        return f"cluster_matrix({self.matrix_name}, {self.dtype.name}{list(self.shape)}, {how} at {self.node_IP_list})"

    def _lengths(self, count):
        return arguments.rows_of(count, self.node_percentages)

    # ---- distributing ----

    def convert_to_cluster_matrix_shards(self, dim=None):
        """Splits the matrix along `dim` (None: the one it was made with) by the shares; `node_matrices` then."""
        self.split_matrix = True
        self._take(self._tensor, self.dim if dim is None else dim)
        return self.node_matrices

    def convert_to_cluster_matrix_grid(self):
        """Makes it an operand of System 2, whose results are a grid of two rows over the nodes."""
        self.matrix_labeling = self.matrix_labeling or "a"
        return self

    def compute(self):
        """The whole matrix."""
        return files.result(self._tensor)

    def send_back(self):
        """The whole matrix; `compute` by another name."""
        return self.compute()

    merged_matrix = property(compute, doc="The whole matrix.")

    def parallel_interface_file_transfer(self, filename, target_ip):
        """Sends a file's matrix to a node, over all paths that the pool has to it; {path: bytes}.

        Here a file is moved by the pool's own links. Raises as the constructor does.
        """
        slot = pool.slots_of([target_ip], using=self._session)[0]
        sent = files.tensor(filename).place(slots=[slot])
        sent.start()
        self._session.sync()
        return {target_ip: sent.nbytes}

    # ---- operations ----

    def cluster_operation(self, other_matrix=None, *flags, **named):
        """This matrix · another, or + or − (operation "mul", "add", "sub"), each transposed first if wanted.

        Flags: transposeA, transposeB (False), send_back (True), operation ("mul"); also spelled TransposeA, TransposeB,
        send_back_result, and the other matrix cluster_matrixB. send_back: the result as torch.Tensor where torch can be imported, else an array. Otherwise, and
        unless there is a single node, it stays with the nodes, as a cluster_matrix. ValueError if shapes do not fit.
        """
        other_matrix = named.pop("cluster_matrixB", other_matrix)
        turn, other_turn, back, op = _flags(flags, named, {"transposeA": False, "transposeB": False, "send_back": True,
                                                           "operation": "mul"})
        if not isinstance(other_matrix, cluster_matrix):
            other_matrix = cluster_matrix(other_matrix, self.node_IP_list, self.node_percentages,
                                          self.back_end_select_list, self.CPU_GPU_select_list, save_bin_matrix=False)
        made = operations.binary(self._tensor, other_matrix._tensor, op, turn, other_turn)
        dim = self._joined(other_matrix, made, op, turn, other_turn)
        return self._answer(made, dim, f"{self.matrix_name}x{other_matrix.matrix_name}", back,
                            "a" in (self.matrix_labeling, other_matrix.matrix_labeling)
                            or "b" in (self.matrix_labeling, other_matrix.matrix_labeling))

    cluster_shard_operation = cluster_operation

    def _joined(self, other, made, op, turn, other_turn):
        """The axis along which a result is split; None: the planner's choice, where the inner dimension is split."""
        last = made.ndim - 1
        if op != "mul":
            return self.dim + made.ndim - len(self.shape) if self.split_matrix else 0

        def axis_of(m, turned):  # where the axis along which it is split is, after the transpose; -1: the last
            at = m.dim - len(m.shape)
            return -3 - at if turned and at >= -2 else at
        mine = axis_of(self, turn) if self.split_matrix else None
        theirs = axis_of(other, other_turn) if other.split_matrix else None
        if mine == -1 and theirs == -2:
            return None
        if mine is not None and mine != -1:
            return made.ndim + mine
        if theirs == -1 or (theirs is None and mine is None and self.dim == len(self.shape) - 1):
            return last
        if theirs is not None and theirs < -2:
            return made.ndim + theirs
        return last - 1

    def _answer(self, made, dim, name, back, grid=False):
        """A result laid over the nodes, sent back if wanted."""
        owners = list(dict.fromkeys(self.slots))
        half = len(owners) // 2
        if grid and half >= 2 and min(made.shape[-2:]) >= half:
            made = made.place(parts=(1,) * (made.ndim - 2) + (2, half), slots=owners[:2 * half], copies=1)
        elif dim is not None:
            made = pool.place(made, dim, self._lengths(made.shape[dim]), self.slots)
        if back or len(self.slots) == 1:
            return files.result(made)
        return self._made(made, 0 if dim is None else dim, files.result_name(name))

    def ggml_cluster_single_matrix_operation(self, *flags, **named):
        """soft_max, silu, gelu, gelu_quick, gelu_erf or rms_norm of it, along the last axis where that matters.

        Flags: transpose (False), operation ("soft_max"), send_back (False).
        """
        turn, op, back = _flags(flags, named, {"transpose": False, "operation": "soft_max", "send_back": False})
        return self._alike(operations.unary(self._tensor, op, turn), f"{self.matrix_name}_{op}", back)

    def _alike(self, made, name, back):
        """A result that is split as this is, where its shape allows that."""
        return self._answer(made, self.dim if self.split_matrix and self.dim < made.ndim else 0, name, back)

    def cluster_flash_attn(self, K=None, V=None, *flags, **named):
        """Attention of these queries over keys and values (also spelled cluster_matrixK and cluster_matrixV), all [batch,
        heads, positions, width]; split by heads.

        Flags: TransposeQ, TransposeK, TransposeV (False), send_back (False), operation ("flash_attn_ext"),
        extra_param_value ([scale, max_bias, softcap]; scale 0 or less: 1/√width), mask. What is sent back has two axes:
        batch · heads · positions, and width.
        """
        K, V = named.pop("cluster_matrixK", K), named.pop("cluster_matrixV", V)
        turns = {"TransposeQ": False, "TransposeK": False, "TransposeV": False}
        *turn, back, op, extra, mask = _flags(flags, named, {**turns, "send_back": False, "operation": "flash_attn_ext",
                                                             "extra_param_value": None, "mask": None})
        if op != "flash_attn_ext":
            raise ValueError(f"cluster_flash_attn: no operation '{op}'; there is flash_attn_ext")
        q, k, v = (operations.turned(m._tensor if isinstance(m, cluster_matrix) else files.tensor(m), t)
                   for m, t in zip((self, K, V), turn))
        extra = [float(e) for e in ([extra] if isinstance(extra, (int, float)) else extra or ())]
        if len(extra) > 3:
            raise ValueError(f"cluster_flash_attn: extra_param_value {extra}: [scale, max_bias, softcap]")
        if mask is not None:
            mask = mask._tensor if isinstance(mask, cluster_matrix) else files.tensor(mask)
        made = operations.attention(q, k, v, *extra, mask=mask)
        if back or len(self.slots) == 1:
            made = pool.place(made, 1, self._lengths(made.shape[1]), self.slots)
            return files.result(made.reshape(-1, made.shape[-1]))
        return self._answer(made, 1, f"{self.matrix_name}_{op}", back)

    def cluster_rope_operation(self, *flags, **named):
        """Rotary positions. Flags: transpose (False), rope_type (0: neighbours are pairs; 1, 2: halves), exter_parmiters
        ([even width that is turned, base, first position, factor of positions], as far as given), send_back (False)."""
        turn, kind, extra, back = _flags(flags, named, {"transpose": False, "rope_type": 0, "exter_parmiters": (),
                                                        "send_back": False})
        return self._alike(operations.rope(operations.turned(self._tensor, turn), kind, list(extra)),
                           f"{self.matrix_name}_rope", back)

    def cluster_reshape_operation(self, output_dims, *flags, **named):
        """The same elements in the shape output_dims, that of the whole, outermost axis first.

        Flags: global_input_shape, shard_input_shapes, input_shape (None; checked if given, not needed), transpose
        (False), send_back (False).
        """
        whole, _, same, turn, back = _flags(flags, named, {"global_input_shape": None, "shard_input_shapes": None,
                                                           "input_shape": None, "transpose": False, "send_back": False})
        for told in filter(None, (whole, same)):
            if [n for n in told if n != 1] != [n for n in self.shape if n != 1]:
                raise ValueError(f"reshape: the matrix has the shape {list(self.shape)}, not {list(told)}")
        return self._alike(operations.reshape(operations.turned(self._tensor, turn), output_dims),
                           f"{self.matrix_name}_reshape", back)

    def cluster_repeat_operation(self, repeat_dims, *flags, **named):
        """Copies beside each other: repeat_dims times along [columns, rows, depth, batch].

        Flags: num_heads (8; not needed, as the whole is repeated), transpose (False), send_back (False).
        """
        _, turn, back = _flags(flags, named, {"num_heads": 8, "transpose": False, "send_back": False})
        return self._alike(operations.repeat(operations.turned(self._tensor, turn), repeat_dims),
                           f"{self.matrix_name}_repeat", back)

    # ---- files ----

    def _save(self, folder, split):
        """Writes the shards, or the whole, into a folder; notes and returns the paths."""
        tensors = self.node_matrices if split else [self._tensor]
        names = [f"{self.matrix_name}_shard_{i}.bin" for i in range(len(tensors))] if split else [f"{self.matrix_name}.bin"]
        paths = [files.write_whole(folder, name, files.encode(t)) for name, t in zip(names, tensors)]
        stale = len(paths)  # of an earlier matrix of this name, of more shards
        while split and (old := pathlib.Path(folder) / f"{self.matrix_name}_shard_{stale}.bin").is_file():
            old.unlink()
            stale += 1
        for path in paths:
            if path not in self.matrix_file_paths_list:
                self.matrix_file_paths_list.append(path)
        return paths

    def save_distribute_matrix_shards_bin(self):
        """Writes the shards, NAME_shard_0.bin and so on, into the RAM folder and the disk folder. The paths."""
        self.convert_to_cluster_matrix_shards()
        return self._save(config.folder("LOCAL_RAM_FOLDER"), True) + self._save(config.folder("LOCAL_DISK_FOLDER"), True)

    def save_distribute_full_matrix_bin(self):
        """Writes NAME.bin into the RAM folder and the disk folder. The paths."""
        return self._save(config.folder("LOCAL_RAM_FOLDER"), False) + self._save(config.folder("LOCAL_DISK_FOLDER"), False)

    def save_distribute_matrix_A_grid_bin(self):
        """Writes NAME.bin, as an operand of System 2; what each node needs of it is sent when it computes."""
        self.convert_to_cluster_matrix_grid()
        return self.save_distribute_full_matrix_bin()

    save_distribute_matrix_B_grid_bin = save_distribute_matrix_A_grid_bin

    def save_matrix_binary(self, matrix, filename):
        """Writes any matrix as FILENAME: a name, in the RAM folder. The path."""
        made = matrix._tensor if isinstance(matrix, cluster_matrix) else files.tensor(matrix)
        return files.write_whole(config.folder("LOCAL_RAM_FOLDER"), filename, files.encode(made))

    def _stored(self, folder, dim):
        """The tensor of NAME.bin in a folder, or of NAME_shard_0.bin and so on; if both are there, of those if it is split."""
        folder = pathlib.Path(folder)
        whole, paths = folder / f"{self.matrix_name}.bin", []
        while (path := folder / f"{self.matrix_name}_shard_{len(paths)}.bin").exists():
            paths.append(path)
        if whole.exists() and not (self.split_matrix and paths):
            return files.tensor(whole)
        if not paths:
            raise FileNotFoundError(f"{whole}: there is no such file, and no {self.matrix_name}_shard_0.bin beside it")
        return _cat([files.tensor(path) for path in paths], dim, paths[0])

    def load_cluster_matrix(self):
        """Reads NAME.bin, or its shards, of the RAM folder or else of the disk folder; returns itself."""
        try:
            made = self._stored(config.folder("LOCAL_RAM_FOLDER"), self.dim)
        except FileNotFoundError:
            made = self._stored(config.folder("LOCAL_DISK_FOLDER"), self.dim)
        self._take(made, self.dim)
        return self

    def load_cluster_matrix_shards(self):
        """`load_cluster_matrix`, split then."""
        self.split_matrix = True
        return self.load_cluster_matrix()

    def load_cluster_matrix_A_grid(self):
        """`load_cluster_matrix`, an operand of System 2 then."""
        return self.load_cluster_matrix().convert_to_cluster_matrix_grid()

    load_cluster_matrix_B_grid = load_cluster_matrix_A_grid
    convert_bin_matrix_to_pt = staticmethod(files.convert_bin_matrix_to_pt)


def _cat(parts, dim, path):
    """Shards joined along the axis `dim`, or the only one along which they fit; ValueError if they fit along none."""
    axes = [a for a in range(parts[0].ndim) if len({(t.ndim, *t.shape[:a], *t.shape[a + 1:]) for t in parts}) == 1]
    if not axes:
        raise ValueError(f"{path}: the shards' shapes {[list(t.shape) for t in parts]} do not fit each other; write them again")
    dim %= parts[0].ndim
    return parts[0] if len(parts) == 1 else shoal.cat(parts, dim if dim in axes else axes[0])


def _named(matrix):
    """The name of a matrix by its file: "folder/file.pt:key" is "file_key"."""
    if not isinstance(matrix, (str, os.PathLike)):
        return "matrix"
    file, _, key = os.path.basename(os.fspath(matrix)).partition(":")
    stem = os.path.splitext(file)[0]
    made = "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in stem + ("_" + key if key else ""))
    return made[:150].lstrip(".-") or "matrix"


class _Cluster:
    """What programs call `cluster`: products by all devices of the pool."""

    @staticmethod
    def distributed_matmul(a, b):
        """a · b, each a cluster_matrix, a tensor or an array; as torch.Tensor where torch can be imported, else an array."""
        a = a if isinstance(a, cluster_matrix) else cluster_matrix(a, save_bin_matrix=False)
        return a.cluster_operation(b)


cluster = _Cluster()
