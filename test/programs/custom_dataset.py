"""A dataset of one's own, transforms, a collate function, samplers and a validation split."""
import torch
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler, random_split


class Words(Dataset):
    def __init__(self, words, transform=None):
        self.words, self.transform = words, transform

    def __len__(self):
        return len(self.words)

    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        sample = {"word": self.words[idx], "length": len(self.words[idx])}
        return self.transform(sample) if self.transform else sample


class ToTensor:
    def __call__(self, sample):
        return torch.tensor([ord(c) - 96.0 for c in sample["word"]]), sample["length"]


def collate(batch):
    lengths = torch.tensor([n for _, n in batch])
    padded = torch.zeros(len(batch), int(lengths.max()))
    for i, (row, n) in enumerate(batch):
        padded[i, :n] = row
    return padded, lengths


words = "a be sea deep earth forest general handsome".split()
dataset = Words(words, transform=ToTensor())
train_set, val_set = random_split(dataset, [6, 2])
losses = []
for epoch in range(2):
    for padded, lengths in DataLoader(train_set, batch_size=4, shuffle=True, collate_fn=collate):
        losses += [padded.sum().item(), *map(float, lengths.tolist()), padded.size(1)]
for sample in DataLoader(Subset(Words(words), [1, 3]), batch_size=2):
    assert sample["word"] == ["be", "deep"]
    losses += [float(n) for n in sample["length"]]
iterator = iter(DataLoader(val_set, batch_size=1, collate_fn=collate, drop_last=True))
losses.append(next(iterator)[0].sum().item())
losses.append(float(len(list(WeightedRandomSampler([0.0, 1.0], 5)))))
