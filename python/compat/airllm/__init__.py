"""The names of distributed-llama's Python worker over Shoal: tensor operations with a choice of backend.

    from airllm import tensor_ops
    y = tensor_ops.rms_norm(x, weight)

Importing this package starts nothing.
"""
