"""Training over slow links: islands that take many steps by themselves, and a shepherd that brings them together.

    from shoal.train import Shepherd, model

    told = Shepherd(experiment, model=model.load("model.mlir"), data=data).run()

Each worker is an island. It has the parameters and the state of AdamW and takes `tau` steps as one loop on the
worker. The shepherd, a client of the pool, averages what the islands have moved by, weighted by tokens, takes an
outer step of Nesterov's momentum, and hands the new parameters out (DiLoCo, Douillard et al., 2023).
"""
from .model import Program
from .shepherd import Shepherd

__all__ = ["Program", "Shepherd"]
