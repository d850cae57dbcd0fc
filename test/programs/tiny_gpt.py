"""A language model of characters with attention written out, trained and sampled greedily."""
import math

import torch
import torch.nn as nn
from torch.nn import functional as F

text = "to be or not to be that is the question "
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
block, width, heads = 8, 16, 2


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.register_buffer("bias", torch.tril(torch.ones(block, block)).view(1, 1, block, block))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(width, dim=2)
        k, q, v = (t.view(B, T, heads, C // heads).transpose(1, 2) for t in (k, q, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(len(chars), width), wpe=nn.Embedding(block, width),
            ln=nn.LayerNorm(width), h=nn.ModuleList([Head() for _ in range(2)])))
        self.lm_head = nn.Linear(width, len(chars), bias=False)
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long).unsqueeze(0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for h in self.transformer.h:
            x = x + h(self.transformer.ln(x))
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


model, losses = GPT(), []
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
for step in range(15):
    ix = torch.randint(len(data) - block, (4,))
    x = torch.stack([data[i:i + block] for i in ix])
    y = torch.stack([data[i + 1:i + block + 1] for i in ix])
    logits, loss = model(x, y)
    model.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
idx = torch.zeros((1, 1), dtype=torch.long)
for _ in range(6):
    logits, _ = model(idx[:, -block:])
    idx = torch.cat((idx, logits[:, -1, :].argmax(-1, keepdim=True)), dim=1)
losses += [float(i) for i in idx[0].tolist()]
