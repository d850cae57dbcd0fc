"""Parts of speech by an LSTM over embedded words."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

training_data = [("the dog ate the apple".split(), ["D", "N", "V", "D", "N"]),
                 ("everybody read that book".split(), ["N", "V", "D", "N"])]
word_to_ix = {}
for sent, tags in training_data:
    for word in sent:
        word_to_ix.setdefault(word, len(word_to_ix))
tag_to_ix = {"D": 0, "N": 1, "V": 2}


class LSTMTagger(nn.Module):
    def __init__(self, embedding_dim, hidden_dim, vocab_size, tagset_size):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, num_layers=2, bidirectional=True)
        self.hidden2tag = nn.Linear(2 * hidden_dim, tagset_size)

    def forward(self, sentence):
        embeds = self.word_embeddings(sentence)
        lstm_out, (h, c) = self.lstm(embeds.view(len(sentence), 1, -1))
        return F.log_softmax(self.hidden2tag(lstm_out.view(len(sentence), -1)), dim=1)


model = LSTMTagger(6, 6, len(word_to_ix), len(tag_to_ix))
loss_function = nn.NLLLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1)
losses = []
for epoch in range(6):
    for sentence, tags in training_data:
        model.zero_grad()
        sentence_in = torch.tensor([word_to_ix[w] for w in sentence], dtype=torch.long)
        targets = torch.tensor([tag_to_ix[t] for t in tags], dtype=torch.long)
        loss = loss_function(model(sentence_in), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
