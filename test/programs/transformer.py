"""A transformer encoder with positional encoding classifies sequences, some of them padded."""
import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=20):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:x.size(0)]


class Classifier(nn.Module):
    def __init__(self, ntoken, d_model, nhead, d_hid, nlayers):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, nlayers)
        self.linear = nn.Linear(d_model, 3)
        self.d_model = d_model
        self.init_weights()

    def init_weights(self):
        self.embedding.weight.data.uniform_(-0.1, 0.1)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-0.1, 0.1)

    def forward(self, src, padding):
        x = self.pos(self.embedding(src) * math.sqrt(self.d_model))
        return self.linear(self.encoder(x, src_key_padding_mask=padding).mean(dim=0))


model = Classifier(15, 8, 2, 16, 2)
src, target = torch.randint(0, 15, (6, 4)), torch.randint(0, 3, (4,))
padding = torch.zeros(4, 6, dtype=torch.bool)
padding[1, 4:] = True
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9)
losses = []
for step in range(8):
    model.train()
    loss = nn.CrossEntropyLoss()(model(src, padding), target)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    losses.append(loss.item())
