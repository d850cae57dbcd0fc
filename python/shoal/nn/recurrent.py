"""Recurrent layers: RNN, LSTM and GRU, and their cells, with torch's names of weights.

A layer runs over the steps one after another in recorded operations; what the inputs contribute to all steps
is one product. Packed sequences run padded, with a mask for those that have ended.
"""
import math

from .. import _shoal
from .. import functional as F
from ..creation import cat, stack, zeros
from ..words import check_probability, invalid
from . import init
from .layers import _empty
from .module import Module
from .rnn import PackedSequence, packed_of, padded_of


def _gates(kind):
    return {"LSTM": 4, "GRU": 3}.get(kind, 1)


def _stepped(kind, from_input, h, c, weight_hh, bias_hh, weight_hr=None):
    """(h, c) after one step; from_input: what the input contributes to the gates."""
    from_state = F.linear(h, weight_hh, bias_hh)
    if kind == "LSTM":
        i, f, g, o = (from_input + from_state).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h if weight_hr is None else F.linear(h, weight_hr)), c
    if kind == "GRU":
        (r, z, n), (rh, zh, nh) = from_input.chunk(3, -1), from_state.chunk(3, -1)
        r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
        n = (n + r * nh).tanh()
        return (1 - z) * n + z * h, c
    made = from_input + from_state
    return (made.relu() if kind == "RNN_RELU" else made.tanh()), c


class _Recurrent(Module):
    """What the layers share."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__()
        if hidden_size < 1 or num_layers < 1:
            raise invalid(f"{mode}: hidden_size is {hidden_size}, num_layers {num_layers}; each must be at least 1")
        check_probability(dropout, mode)
        if proj_size and (mode != "LSTM" or not 0 < proj_size < hidden_size):
            raise invalid(f"{mode}: proj_size {proj_size}; an LSTM takes one below hidden_size")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        rows, out = _gates(mode) * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for end in self._ends():
                width = input_size if layer == 0 else out * len(self._ends())
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}_l{layer}{end}", _empty(*shape, dtype=dtype))
        self.reset_parameters()

    def _ends(self):
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self):
        """Draws the initial values."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self):
        """Nothing: weights are used as they are."""

    def _weights(self, layer, end):
        return {name: getattr(self, f"{name}_l{layer}{end}", None)
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")}

    def _run(self, x, h, c, layer, end, mask):
        """One layer in one direction over x, (T, N, F): results (T, N, H), h and c."""
        w = self._weights(layer, end)
        inputs = F.linear(x, w["weight_ih"], w["bias_ih"])
        order = range(x.shape[0])
        made = [None] * x.shape[0]
        for t in reversed(order) if end else order:
            new_h, new_c = _stepped(self.mode, inputs[t], h, c, w["weight_hh"], w["bias_hh"], w["weight_hr"])
            if mask is None:
                h, c, made[t] = new_h, new_c, new_h
            else:
                there = mask[t]
                made[t] = _shoal.select(there, new_h, new_h * 0)
                h = _shoal.select(there, new_h, h)
                c = None if c is None else _shoal.select(there, new_c, c)
        return stack(made), h, c

    def _begin(self, hx, x, one):
        out = self.proj_size or self.hidden_size
        count = self.num_layers * len(self._ends())
        lstm = self.mode == "LSTM"
        if hx is None:
            h = zeros(count, x.shape[1], out, dtype=x.dtype)
            return h, zeros(count, x.shape[1], self.hidden_size, dtype=x.dtype) if lstm else None
        h, c = hx if lstm else (hx, None)
        if one:
            h, c = h.unsqueeze(1), None if c is None else c.unsqueeze(1)
        if tuple(h.shape) != (count, x.shape[1], out):
            raise invalid(f"{self.mode}: the initial state {h._text()} is not "
                          f"{[count, x.shape[1], out]}")
        return h, c

    def forward(self, input, hx=None):
        packed = input if isinstance(input, PackedSequence) else None
        if packed is not None:
            x, mask = padded_of(packed)
            if hx is not None and packed.sorted_indices is not None:
                pick = packed.sorted_indices
                hx = tuple(t.index_select(1, pick) for t in hx) if isinstance(hx, tuple) else \
                    hx.index_select(1, pick)
            one = False
        else:
            mask, one = None, input.ndim == 2
            x = input.unsqueeze(1) if one else input.transpose(0, 1) if self.batch_first else input
        if x.ndim != 3 or x.shape[-1] != self.input_size:
            raise invalid(f"{self.mode}: {x._text()}; 2 or 3 axes are needed, the last of length "
                          f"{self.input_size}")
        h, c = self._begin(hx, x, one)
        last_h, last_c = [], []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout, True)
            ends = []
            for k, end in enumerate(self._ends()):
                at = layer * len(self._ends()) + k
                made, new_h, new_c = self._run(x, h[at], None if c is None else c[at], layer, end, mask)
                ends.append(made)
                last_h.append(new_h)
                last_c.append(new_c)
            x = cat(ends, -1) if len(ends) > 1 else ends[0]
        h, c = stack(last_h), None if c is None else stack(last_c)
        if packed is not None:
            x = packed_of(x, packed)
            if packed.unsorted_indices is not None:
                h = h.index_select(1, packed.unsorted_indices)
                c = None if c is None else c.index_select(1, packed.unsorted_indices)
        elif one:
            x, h, c = x.squeeze(1), h.squeeze(1), None if c is None else c.squeeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, (h if c is None else (h, c))

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                            ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(_Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh) over (T, N, F), or (N, T, F) with batch_first.

    Gives (results of the last layer at all steps (T, N, H), last state of each layer (layers, N, H)); bidirectional:
    of two directions, (T, N, 2 H) and (2 layers, N, H). nonlinearity: "tanh" or "relu".
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
                 batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise invalid(f"RNN: nonlinearity '{nonlinearity}' is neither tanh nor relu")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); as RNN, its state being (h, c)."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al., 2014); as RNN."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)


class _Cell(Module):
    """One step of a layer."""

    def __init__(self, mode, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.bias = mode, input_size, hidden_size, bias
        rows = _gates(mode) * hidden_size
        self.weight_ih = _empty(rows, input_size, dtype=dtype)
        self.weight_hh = _empty(rows, hidden_size, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, _empty(rows, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws the initial values."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input, hx=None):
        one = input.ndim == 1
        x = input.unsqueeze(0) if one else input
        lstm = self.mode == "LSTM"
        if hx is None:
            h = zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            c = h if lstm else None
        else:
            h, c = hx if lstm else (hx, None)
            h, c = (None if t is None else t.unsqueeze(0) if one else t for t in (h, c))
        h, c = _stepped(self.mode, F.linear(x, self.weight_ih, self.bias_ih), h, c, self.weight_hh, self.bias_hh)
        h, c = (None if t is None else t.squeeze(0) if one else t for t in (h, c))
        return (h, c) if lstm else h

    def extra_repr(self):
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(_Cell):
    """One step of `RNN`: (N, F) and h (N, H) give h."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise invalid(f"RNNCell: nonlinearity '{nonlinearity}' is neither 'tanh' nor 'relu'")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity


class LSTMCell(_Cell):
    """One step of `LSTM`: (N, F) and (h, c) give (h, c)."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("LSTM", input_size, hidden_size, bias, device, dtype)


class GRUCell(_Cell):
    """One step of `GRU`: (N, F) and h (N, H) give h."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("GRU", input_size, hidden_size, bias, device, dtype)
