"""A generator and a discriminator on points of a circle."""
import math

import torch
import torch.nn as nn

angle = torch.rand(64) * 2 * math.pi
real = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
netG = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 2), nn.Tanh())
netD = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid())


def weights_init(m):
    if m.__class__.__name__.find("Linear") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.2)


netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=0.01, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=0.01, betas=(0.5, 0.999))
losses = []
for step in range(10):
    netD.zero_grad()
    label = torch.full((32,), 1.0, dtype=torch.float)
    batch = real[torch.randperm(64)[:32]]
    errD_real = criterion(netD(batch).view(-1), label)
    errD_real.backward()
    fake = netG(torch.randn(32, 4))
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()).view(-1), label)
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    label.fill_(1.0)
    errG = criterion(netD(fake).view(-1), label)
    errG.backward()
    optimizerG.step()
    losses += [(errD_real + errD_fake).item(), errG.item()]
