"""The form in which PyTorch trains fastest here: eager or compiled, on one thread or two."""
import time

import torch

THREADS = (1, 2)


def given(training, compiled, threads):
    """(step, its description) of a form: training(compiled) -> a function that does one step, of a model at its start."""
    torch.set_num_threads(threads)
    return training(compiled), (f"PyTorch {torch.__version__.split('+')[0]}, {'compiled' if compiled else 'eager'}, "
                                f"{threads} thread{'s' if threads > 1 else ''}")


def fastest(training, compile_too=True):
    """The same, of the fastest form.

    torch.compile is tried where there is one.
    """
    forms = [(compiled, threads) for compiled in (False, True) for threads in THREADS
             if not compiled or (compile_too and hasattr(torch, "compile"))]

    def seconds(form):
        step, _ = given(training, *form)
        for _ in range(10):  # the first ones compile
            step()
        start = time.perf_counter()
        for _ in range(30):
            step()
        return time.perf_counter() - start
    return given(training, *min(forms, key=seconds))
