"""A softmax over many classes of which most are rare."""
from collections import namedtuple

from .. import functional as F
from ..creation import cat, where
from ..indexing import in_range
from ..words import invalid
from .containers import ModuleList, Sequential
from .layers import Linear
from .module import Module

ASMoutput = namedtuple("ASMoutput", "output loss")


class AdaptiveLogSoftmaxWithLoss(Module):
    """The logarithms of the probabilities of frequent classes directly, of rarer ones by clusters (Grave et al.,
    2017): classes are in the order of their frequency, cut at `cutoffs`; the inputs of cluster i are projected to
    in_features / div_value^(i + 1)."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        cutoffs = list(cutoffs)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise invalid(f"AdaptiveLogSoftmaxWithLoss: cutoffs {cutoffs}; they rise, from 1 to n_classes - 1")
        super().__init__()
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs, self.head_bias = [*cutoffs, n_classes], head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            narrow = int(in_features // div_value ** (i + 1))
            count = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(in_features, narrow, bias=False, dtype=dtype),
                                        Linear(narrow, count, bias=False, dtype=dtype)))

    def reset_parameters(self):
        """Draws the initial values."""
        self.head.reset_parameters()
        for project, out in self.tail:
            project.reset_parameters()
            out.reset_parameters()

    def forward(self, input, target):
        """(output, loss): the logarithms of the target classes' probabilities, and less their mean."""
        rows = input.unsqueeze(0) if input.ndim == 1 else input
        if rows.shape[:-1] != (target.shape or (1,)) or input.ndim != target.ndim + 1:
            raise invalid(f"AdaptiveLogSoftmaxWithLoss: targets {target._text()} do not go with "
                          f"{input._text()}")
        wanted = in_range(target.reshape(-1), 0, self.n_classes).unsqueeze(-1)
        head = F.log_softmax(self.head(rows), 1)
        output = head.gather(1, wanted.clamp(max=self.shortlist_size - 1))
        for i, part in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            inner = F.log_softmax(part(rows), 1).gather(1, (wanted - low).clamp(0, high - low - 1))
            at = self.shortlist_size + i
            output = where((wanted >= low) & (wanted < high), head[:, at:at + 1] + inner, output)
        output = output.squeeze(-1)
        loss = -output.mean()
        return ASMoutput(output.squeeze(0) if input.ndim == 1 else output, loss)

    def log_prob(self, input):
        """The logarithms of the probabilities of all classes: (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, :self.shortlist_size]]
        for i, part in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(part(input), 1) + head[:, at:at + 1])
        return cat(parts, 1)

    def predict(self, input):
        """The most probable class of each row."""
        return self.log_prob(input).argmax(1)
