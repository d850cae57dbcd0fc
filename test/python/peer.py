"""PyTorch, which tests compare with: from this environment, or Debian's python3-torch. Tensors go to and
fro by DLPack, since Debian's was built for an older NumPy."""
import sys

import numpy as np
import pytest

DEBIAN = "/usr/lib/python3/dist-packages"

try:
    import torch
except ImportError:
    sys.path.append(DEBIAN)  # at the end: what this environment has comes first
    try:
        import torch
    except ImportError:
        pytest.exit("PyTorch is not here: install torch, or Debian's python3-torch", 77)
    finally:
        sys.path.remove(DEBIAN)

torch.set_num_threads(1)


def torch_of(array, requires_grad=False):
    """A torch tensor of a NumPy array's elements."""
    array = np.array(array)  # a copy that may be written to
    if array.dtype == bool:  # DLPack has had no bool for long
        return torch_of(array.astype("uint8")).bool()
    return torch.from_dlpack(array).clone().requires_grad_(requires_grad)


def numpy_of(tensor):
    """A NumPy array of a torch tensor's elements."""
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bool:
        return np.from_dlpack(tensor.to(torch.uint8)).astype(bool)
    return np.array(np.from_dlpack(tensor))
