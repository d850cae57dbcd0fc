"""The peer of conv.py: PyTorch, eager, on two threads.

    conv_torch.py STEPS plain|depthwise

Run by an interpreter that has torch.
"""
import sys

import conv
import torch
import torch_forms


def training(compiled):
    """A step of training from the start; returns its loss."""
    depthwise = sys.argv[2] == "depthwise"
    pictures, labels, weights = conv.data(depthwise)
    net = conv.model(torch.nn, depthwise)
    with torch.no_grad():
        for parameter, start in zip(net.parameters(), weights):
            parameter.copy_(torch.frombuffer(start, dtype=torch.float32).view(start.shape))
    optimizer = torch.optim.SGD(net.parameters(), lr=conv.RATE)
    x = torch.frombuffer(pictures, dtype=torch.float32).view(pictures.shape)
    y = torch.frombuffer(labels, dtype=torch.int64)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss
    return step


def main():
    step, form = torch_forms.given(training, False, 2)
    conv.serve(step, lambda loss: loss.item(), form)


if __name__ == "__main__":
    main()
