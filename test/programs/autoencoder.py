"""A convolutional autoencoder with transposed convolutions and upsampling."""
import torch
import torch.nn as nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4), nn.GELU(),
            nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.InstanceNorm2d(8), nn.SiLU())
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1), nn.ELU(),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(4, 1, 3, padding="same"),
            nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


model, losses = Autoencoder(), []
images = torch.rand(6, 1, 8, 8)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.01)
for step in range(8):
    recon = model(images)
    loss = nn.functional.mse_loss(recon, images) + 0.1 * nn.functional.huber_loss(recon, images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
