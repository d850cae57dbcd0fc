"""`cluster_zmq`: the nodes of a list as Cluster Matrix's programs know them, and its text commands, from a front end.

Computing does not go this way: `cluster_matrix` uses Shoal's own links. This is for programs that send commands themselves,
to gateways. Sockets are made, and pyzmq is needed, when the first command is sent.
"""
import os
import time

from . import config, files


class cluster_zmq:
    """Nodes by address, one entry for each device. Has the lists that `cluster_matrix` takes when it is given this object:
    equal shares, backend llama, GPUs where there are."""

    def __init__(self, node_IP_list):
        if isinstance(node_IP_list, str) or not node_IP_list or not all(isinstance(a, str) for a in node_IP_list):
            raise TypeError(f"cluster_zmq: {node_IP_list!r} is no list of addresses")
        n = len(node_IP_list)
        self.node_IP_list = list(node_IP_list)
        self.default_node_percentages = [(100 // n + (i < 100 % n)) / 100 for i in range(n)]
        self.node_percentages = self.default_node_percentages
        self.default_back_end_select_list = self.back_end_select_list = ["llama"] * n
        self.default_CPU_GPU_select_list = self.CPU_GPU_select_list = [True] * n
        self.combined_pt_payloads, self.errors = {}, []
        self.llama_socket_pool = {}
        self._context = self._acks = None

    def open(self):
        """Connects to the gateways, and listens for acknowledgements at HEAD_NODE_IP. ImportError without pyzmq, ValueError
        for addresses outside of this machine (see `config.checked_address`), OSError when the port is taken."""
        if self._acks is not None:
            return self
        import zmq
        head = config.checked_address(config.value("HEAD_NODE_IP"))
        places = {a: config.checked_address(a) for a in self.node_IP_list}
        self._context = zmq.Context()
        try:
            acks = self._context.socket(zmq.PULL)
            acks.setsockopt(zmq.MAXMSGSIZE, 4 << 30)
            acks.setsockopt(zmq.RCVHWM, 64)
            acks.bind(f"tcp://{head}:{config.port('PYTHON_FRONT_END_CLUSTER_PORT')}")
            for address, place in places.items():
                port = config.port("HEAD_NODE_PULL_PORT_C" if place == head else "WORKER_NODE_PULL_PORT_C")
                self.llama_socket_pool[address] = self._context.socket(zmq.PUSH)
                self.llama_socket_pool[address].connect(f"tcp://{place}:{port}")
        except zmq.ZMQError as error:
            self.cleanup()
            raise OSError(f"cluster_zmq: cannot listen at {head}: {error}") from None
        self._acks = acks
        return self

    def _send(self, address, parts, timeout):
        import zmq
        self.open()
        if address not in self.llama_socket_pool:
            raise ValueError(f"cluster_zmq: {address} is none of the nodes {', '.join(self.node_IP_list)}")
        socket = self.llama_socket_pool[address]
        socket.setsockopt(zmq.SNDTIMEO, max(int(timeout * 1000), 0))
        try:
            socket.send_multipart(parts)
        except zmq.Again:
            raise TimeoutError(f"cluster_zmq: no gateway at {address} has taken a message within {timeout} s") from None
        return True

    def zmq_send_command(self, worker_ip, command, timeout=5):
        """Sends a line; True. TimeoutError when no gateway takes it, ValueError for an address of no node."""
        return self._send(worker_ip, [command.encode()], timeout)

    def zmq_send_file(self, worker_ip, local_file_path, timeout=60):
        """Sends a file under its name; True. Raises as `zmq_send_command`."""
        with open(local_file_path, "rb") as file:
            return self._send(worker_ip, [os.path.basename(local_file_path).encode(), file.read()], timeout)

    def stream_matrix_binary(self, worker_ip, matrix, save_name, timeout=60):
        """Sends a matrix, without a file of its own, to be kept there as save_name; its bytes. Raises as
        `zmq_send_command`, and ValueError for what a .bin does not hold."""
        data = files.encode(matrix.tensor if hasattr(matrix, "node_IP_list") else files.tensor(matrix), version=2)
        if config.value("STREAM_MATRIX_BINARY_VERBOSE") == "1":
            print(f"{save_name}: {len(data)} bytes to {worker_ip}")
        self._send(worker_ip, [save_name.encode(), data], timeout)
        return len(data)

    def _receive(self, seconds):
        """Waits for one message: an acknowledgement's text, or None after a result was noted or time has run out."""
        if not self.open()._acks.poll(max(int(seconds * 1000), 0)):
            return None
        parts = self._acks.recv_multipart()
        head = parts[0].decode("utf-8", "replace")
        if len(parts) == 2 and head.startswith(("BIN_COMBINED=", "PT_COMBINED=")):
            self.combined_pt_payloads[head.partition("=")[2]] = parts[1]
            return None
        if head.startswith("ERROR="):
            raise RuntimeError(f"a node refuses: {head[6:]}")
        return head if len(parts) == 1 else None

    def wait_for_acks(self, expected_count, expected_msg="ACK", time_out=120):
        """How many of so many acknowledgements have come within time_out seconds. RuntimeError as soon as a node refuses
        something, with its reason."""
        count, end = 0, time.monotonic() + time_out
        while count < expected_count and time.monotonic() < end:
            count += self._receive(end - time.monotonic()) == expected_msg
        return count

    def wait_for_combined_pt(self, base_result_name, time_out=120, force_2d=True):
        """The joined result of this name; force_2d: leading axes become rows. TimeoutError, or RuntimeError as soon as a
        node refuses something."""
        end = time.monotonic() + time_out
        while base_result_name not in self.combined_pt_payloads:
            if time.monotonic() >= end:
                raise TimeoutError(f"cluster_zmq: no result '{base_result_name}' within {time_out} s")
            self._receive(end - time.monotonic())
        from . import pool
        made = files.tensor_of(self.combined_pt_payloads.pop(base_result_name), base_result_name, pool.session())
        return files.result(made.reshape(-1, made.shape[-1]) if force_2d else made)

    def send_ack_confirmation(self, ack_msg="ACK"):
        """Nothing listens to such confirmations; True, as programs expect."""
        return bool(ack_msg)

    def cleanup(self):
        """Closes the sockets."""
        if self._context is not None:
            self._context.destroy(linger=1000)
        self._context = self._acks = None
        self.llama_socket_pool = {}
