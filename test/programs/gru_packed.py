"""Sequences of different lengths, padded and packed, through a GRU."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

sequences = [torch.randn(n, 3) for n in (5, 2, 7, 4)]
lengths = torch.tensor([len(s) for s in sequences])
padded = pad_sequence(sequences, batch_first=True)
target = torch.randn(4, 1)
gru, head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.AdamW(list(gru.parameters()) + list(head.parameters()), lr=0.01)
losses = []
for step in range(8):
    packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
    output, h = gru(packed)
    output, out_lengths = pad_packed_sequence(output, batch_first=True)
    mask = torch.arange(output.size(1))[None, :] < out_lengths[:, None]
    mean = (output * mask.unsqueeze(-1)).sum(1) / out_lengths.unsqueeze(1)
    loss = nn.functional.smooth_l1_loss(head(h[-1] + mean), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), mean.sum().item()]
losses += out_lengths.tolist()
