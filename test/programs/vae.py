"""A variational autoencoder."""
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(36, 20)
        self.fc21 = nn.Linear(20, 4)
        self.fc22 = nn.Linear(20, 4)
        self.fc3 = nn.Linear(4, 20)
        self.fc4 = nn.Linear(20, 36)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    return BCE + -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


model, losses = VAE(), []
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.rand(40, 1, 6, 6)
for epoch in range(3):
    for batch in data.split(10):
        optimizer.zero_grad()
        loss = loss_function(*model(batch)[:1], batch, *model(batch)[1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(batch))
