"""What is going on: the tape of gradients, and the workers."""
import shoal

from . import pool


def get_tape():
    """The operations that gradients would pass through, oldest first: dicts of result, operation,
    inputs, shape."""
    return [{"result": number, "op": op, "inputs": list(inputs), "shape": shape, "dtype": dtype}
            for number, op, inputs, shape, dtype, _ in pool.session().tape()]


def print_tape():
    """Prints the tape, one operation a line."""
    entries = get_tape()
    print(f"Autograd Tape ({len(entries)} operations):\n" + "-" * 60)
    for i, e in enumerate(entries):
        inputs = ", ".join(f"Tensor[{n}]" for n in e["inputs"])
        print(f"{i}: Tensor[{e['result']}] = {e['op']}({inputs})\n"
              f"   shape={e['shape']} requires_grad=True")


def get_worker_stats():
    """Per worker a dict of what it has done and holds. Workers of one name, as those inside this process,
    are told apart by the numbers of their slots."""
    pool.session()
    slots = [s for s in shoal.status().slots if s.compute]
    names = [s.worker for s in slots]
    return {s.worker if names.count(s.worker) == 1 else f"{s.worker}_{s.slot}":
            {"operations": {"total": s.nodes, "compiled": s.nodes, "eager": 0},
             "instructions": s.instances, "bytes": s.bytes, "busy_ms": s.busy_ns / 1e6,
             "backend": s.backend, "device": s.device, "threads": s.threads} for s in slots}


def print_worker_stats():
    """Prints what the workers have done and hold."""
    stats = get_worker_stats()
    print(f"Workers ({len(stats)}):\n" + "-" * 60)
    for name, s in stats.items():
        print(f"{name}: {s['operations']['total']} operations in {s['instructions']} programs, "
              f"{s['busy_ms']:.1f} ms busy, {s['bytes'] / 2**20:.1f} MiB held "
              f"({s['backend']}, {s['device']}, {s['threads']} threads)")
