"""Training over slow links: islands that take many steps by themselves, and a shepherd that brings them together.

    from shoal.train.shepherd import Shepherd

    told = Shepherd(experiment, model="model.mlir", data=data).run()
"""
