"""Training over slow links: islands that take many steps by themselves, and a shepherd that brings them together. `shoal
train` does it, or these modules; the README of this folder says what each is for.

    from shoal.train.shepherd import Shepherd

    told = Shepherd(experiment, model="model.mlir", data=data).run()
"""
