"""A convolutional network with batch norm and pooling, trained and evaluated."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(6)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 12, kernel_size=3)
        self.fc1 = nn.Linear(12 * 2 * 2, 20)
        self.fc2 = nn.Linear(20, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


net = Net()
optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
data, target = torch.randn(24, 1, 12, 12), torch.randint(0, 4, (24,))
losses = []
for epoch in range(3):
    net.train()
    for i in range(0, 24, 8):
        optimizer.zero_grad()
        loss = F.nll_loss(net(data[i:i + 8]), target[i:i + 8])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
    net.eval()
    with torch.no_grad():
        output = net(data)
        losses.append(F.nll_loss(output, target, reduction="sum").item() / 24)
        pred = output.argmax(dim=1, keepdim=True)
        print(pred.eq(target.view_as(pred)).sum().item())
losses += [float(net.bn1.num_batches_tracked), net.bn1.running_mean.sum().item()]
