"""Linear regression: a module with parameters of its own, SGD with momentum, an L1 penalty."""
import torch
from torch import nn


class LinearRegression(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(1, requires_grad=True, dtype=torch.float))
        self.bias = nn.Parameter(torch.randn(1, requires_grad=True, dtype=torch.float))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weights * x + self.bias


device = "cuda" if torch.cuda.is_available() else "cpu"
X = torch.arange(0, 1, 0.02).unsqueeze(dim=1).to(device)
y = 0.7 * X + 0.3
split = int(0.8 * len(X))
X_train, y_train, X_test, y_test = X[:split], y[:split], X[split:], y[split:]
torch.manual_seed(42)
model = LinearRegression().to(device)
loss_fn = nn.L1Loss()
optimizer = torch.optim.SGD(params=model.parameters(), lr=0.01, momentum=0.9)
losses = []
for epoch in range(50):
    model.train()
    loss = loss_fn(model(X_train), y_train) + 1e-3 * sum(p.abs().sum() for p in model.parameters())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.inference_mode():
        test_loss = loss_fn(model(X_test), y_test)
    losses += [loss.item(), test_loss.item()]
print(model.state_dict())
