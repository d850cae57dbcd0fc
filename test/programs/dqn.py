"""Q-learning with a replay memory and a target network, as of the tutorial on reinforcement learning: a walk along
a line, in which steps to the right are worth more."""
import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 16)
        self.layer2 = nn.LazyLinear(n_actions)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x)))


random.seed(0)
policy_net, target_net = DQN(2, 2), DQN(2, 2)
for net in (policy_net, target_net):
    net(torch.zeros(1, 2))  # the lazy layer takes its shape
target_net.load_state_dict(policy_net.state_dict())
frozen = copy.deepcopy(policy_net)
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = deque(maxlen=64)
losses = []

state = torch.tensor([[0.0, 1.0]])
for t in range(60):
    if random.random() < 0.3:
        action = torch.tensor([[random.randrange(2)]], dtype=torch.long)
    else:
        with torch.no_grad():
            action = policy_net(state).max(1).indices.view(1, 1)
    position = state[0, 0].item() + (1 if action.item() else -1)
    reward = torch.tensor([position / 10])
    done = abs(position) > 4
    next_state = None if done else torch.tensor([[position, 1.0]])
    memory.append(Transition(state, action, next_state, reward))
    state = torch.tensor([[0.0, 1.0]]) if done else next_state
    if len(memory) < 16:
        continue

    batch = Transition(*zip(*random.sample(memory, 16)))
    not_final = torch.tensor(tuple(s is not None for s in batch.next_state), dtype=torch.bool)
    values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(16)
    with torch.no_grad():
        next_values[not_final] = target_net(torch.cat([s for s in batch.next_state if s is not None])).max(1).values
    loss = nn.SmoothL1Loss()(values, (next_values * 0.9 + torch.cat(batch.reward)).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    losses.append(loss.item())

    target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
    for key in policy_state:
        target_state[key] = policy_state[key] * 0.05 + target_state[key] * 0.95
    target_net.load_state_dict(target_state)

with torch.no_grad():
    moved = sum((a - b).norm() for a, b in zip(policy_net.parameters(), frozen.parameters()))
    policy = Categorical(logits=policy_net(torch.tensor([[-1.0, 1.0], [1.0, 1.0]])))
losses += [float(moved), policy.entropy().sum().item(), policy.log_prob(torch.tensor([1, 1])).sum().item()]
