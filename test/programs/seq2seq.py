"""nn.Transformer with a causal mask learns to copy."""
import torch
import torch.nn as nn

d, vocab = 8, 9
emb, out = nn.Embedding(vocab, d), nn.Linear(d, vocab)
transformer = nn.Transformer(d_model=d, nhead=2, num_encoder_layers=1, num_decoder_layers=1,
                             dim_feedforward=16, dropout=0.0, batch_first=True)
params = [*emb.parameters(), *transformer.parameters(), *out.parameters()]
optimizer = torch.optim.Adam(params, lr=0.005)
src = torch.randint(1, vocab, (5, 6))
tgt_in = torch.cat([torch.zeros(5, 1, dtype=torch.long), src[:, :-1]], dim=1)
mask = nn.Transformer.generate_square_subsequent_mask(6)
losses = []
for step in range(6):
    logits = out(transformer(emb(src), emb(tgt_in), tgt_mask=mask))
    loss = nn.functional.cross_entropy(logits.reshape(-1, vocab), src.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
