"""The form in which PyTorch trains fastest here: eager or compiled, on one thread or two."""
import time

import torch

THREADS = (1, 2)


def fastest(training, compile_too=True):
    """(step, its description): training(compiled) -> a function that does one step, of a model at its start.

    torch.compile is tried where there is one.
    """
    forms = [(compiled, threads) for compiled in (False, True) for threads in THREADS
             if not compiled or (compile_too and hasattr(torch, "compile"))]

    def begin(form):
        torch.set_num_threads(form[1])
        return training(form[0])

    def seconds(form):
        step = begin(form)
        for _ in range(10):  # the first ones compile
            step()
        start = time.perf_counter()
        for _ in range(30):
            step()
        return time.perf_counter() - start
    form = min(forms, key=seconds)
    return begin(form), (f"PyTorch {torch.__version__.split('+')[0]}, {'compiled' if form[0] else 'eager'}, "
                         f"{form[1]} thread{'s' if form[1] > 1 else ''}")
