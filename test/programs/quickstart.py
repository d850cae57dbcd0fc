"""A perceptron on images: DataLoader, CrossEntropyLoss, train and test functions."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

images, labels = torch.rand(96, 1, 8, 8), torch.randint(0, 10, (96,))
train_dataloader = DataLoader(TensorDataset(images[:64], labels[:64]), batch_size=16, shuffle=True)
test_dataloader = DataLoader(TensorDataset(images[64:], labels[64:]), batch_size=16)
device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(8 * 8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


model = NeuralNetwork().to(device)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
losses = []


def train(dataloader):
    model.train()
    for batch, (X, y) in enumerate(dataloader):
        X, y = X.to(device), y.to(device)
        loss = loss_fn(model(X), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())


def test(dataloader):
    model.eval()
    test_loss, correct = 0, 0
    with torch.no_grad():
        for X, y in dataloader:
            pred = model(X.to(device))
            test_loss += loss_fn(pred, y.to(device)).item()
            correct += (pred.argmax(1) == y).type(torch.float).sum().item()
    losses.extend([test_loss / len(dataloader), correct / len(dataloader.dataset)])


for t in range(5):
    train(train_dataloader)
    test(test_dataloader)
print(model)
