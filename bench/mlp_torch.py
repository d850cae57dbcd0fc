"""The peer of mlp.py: PyTorch, on as many threads as it is fastest with.

    mlp_torch.py eager|best STEPS

Run by an interpreter that has torch. With `best` it may compile, where it can.
"""
import sys

import mlp
import torch
import torch_forms


def training(compiled):
    """A step of training from the start; returns its loss."""
    images, labels, weights = mlp.data()
    model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), weights):
            parameter.copy_(torch.tensor(start.tolist()))
    optimizer = torch.optim.SGD(model.parameters(), lr=mlp.RATE)
    x, y = torch.tensor(images.tolist()), torch.tensor(labels.tolist())

    def loss_of(x, y):
        return torch.nn.functional.cross_entropy(model(x), y)
    if compiled:
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def main():
    step, form = torch_forms.fastest(training, compile_too=sys.argv[1] == "best")
    mlp.serve(step, lambda loss: loss.item(), form)


if __name__ == "__main__":
    main()
