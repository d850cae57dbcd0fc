"""The peer of mlp.py: PyTorch, eager, on as many threads as it is fastest with, one or two.

    mlp_torch.py - STEPS

Run by an interpreter that has torch.
"""
import time

import mlp


def main():
    import torch
    images, labels, weights = mlp.data()
    model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), weights):
            parameter.copy_(torch.tensor(start.tolist()))
    optimizer = torch.optim.SGD(model.parameters(), lr=mlp.RATE)
    x, y = torch.tensor(images.tolist()), torch.tensor(labels.tolist())

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def seconds(threads):
        torch.set_num_threads(threads)
        kept = [p.detach().clone() for p in model.parameters()]
        start = time.perf_counter()
        for _ in range(50):
            step()
        took = time.perf_counter() - start
        with torch.no_grad():
            for parameter, before in zip(model.parameters(), kept):
                parameter.copy_(before)
        return took
    seconds(1)
    torch.set_num_threads(min((1, 2), key=seconds))
    mlp.serve(step, lambda loss: loss.item())


if __name__ == "__main__":
    main()
