"""Names classified by a recurrent network written by hand, letter by letter."""
import string

import torch
import torch.nn as nn

letters = string.ascii_lowercase
names = {"anna": 0, "bert": 1, "carla": 0, "david": 1, "emma": 0, "frank": 1}


def to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(letters))
    for i, letter in enumerate(line):
        tensor[i][0][letters.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.i2o = nn.Linear(input_size + hidden_size, output_size)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, input, hidden):
        combined = torch.cat((input, hidden), 1)
        return self.softmax(self.i2o(combined)), torch.tanh(self.i2h(combined))

    def initHidden(self):
        return torch.zeros(1, self.hidden_size)


rnn, criterion, rate, losses = RNN(26, 12, 2), nn.NLLLoss(), 0.05, []
for epoch in range(3):
    for name, label in names.items():
        hidden = rnn.initHidden()
        rnn.zero_grad()
        line = to_tensor(name)
        for i in range(line.size()[0]):
            output, hidden = rnn(line[i], hidden)
        loss = criterion(output, torch.tensor([label], dtype=torch.long))
        loss.backward()
        for p in rnn.parameters():
            p.data.add_(p.grad.data, alpha=-rate)
        losses.append(loss.item())
    topv, topi = output.topk(1)
    losses.append(float(topi[0].item()))
