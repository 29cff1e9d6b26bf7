"""Goldens of recurrent layers and cells: recurrent.json.gz.

modules.py says what they hold. Operands are the sequences and, where they are
given, the states h and c; results the sequences and the states after.

Run: /usr/bin/python3 scripts/goldens/recurrent.py
"""

from torch import nn
from torch.nn.utils import rnn

from modules import *

TIMES, BATCH, IN, HIDDEN = 4, 3, 2, 3
CLASSES = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
LENGTHS = [2, 4, 1]


def with_state(module, x, *state):
    if not state:
        return module(x)
    return module(x, state[0] if len(state) == 1 else state)


def packed(module, x, *state):
    """Sequences of LENGTHS; the batch is the second axis."""
    p = rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False)
    y, after = with_state(module, p, *state)
    return rnn.pad_packed_sequence(y, total_length=TIMES)[0], after


def layers(kind, name, given=False, call=with_state, **options):
    """One training step and an evaluation."""
    full = f"{kind} {name}"
    seed(full)
    module = CLASSES[kind](IN, HIDDEN, **options)
    size = (module.num_layers * (2 if module.bidirectional else 1), BATCH)
    x = (BATCH, TIMES, IN) if module.batch_first else (TIMES, BATCH, IN)

    def operands():
        state = []
        if given:
            state.append(randn(*size, module.proj_size or HIDDEN))
            if kind == "lstm":
                state.append(randn(*size, HIDDEN))
        return [randn(*x), *state]

    record(full, module, [operands(), operands()], call)


def cell(kind, make, name="cell", **options):
    full = f"{kind} {name}"
    seed(full)
    state = [(BATCH, HIDDEN)] * (2 if kind == "lstm" else 1)
    record(full, make(IN, HIDDEN, **options),
           [[randn(BATCH, IN)] + [randn(*s) for s in state] for _ in range(2)], with_state)


for kind in CLASSES:
    layers(kind, "plain")
    layers(kind, "state", given=True)
    layers(kind, "no bias", bias=False, batch_first=True)
    layers(kind, "deep", given=True, num_layers=2, bidirectional=True)
    layers(kind, "packed", given=True, call=packed, bidirectional=True)
    layers(kind, "packed deep", call=packed, num_layers=2)
layers("rnn", "relu", given=True, nonlinearity="relu")
layers("lstm", "projection", given=True, proj_size=2)
layers("lstm", "projection deep", given=True, num_layers=2, proj_size=2, bidirectional=True, call=packed)
cell("rnn", nn.RNNCell)
cell("rnn", nn.RNNCell, "relu cell", nonlinearity="relu")
cell("lstm", nn.LSTMCell)
cell("gru", nn.GRUCell)
cell("gru", nn.GRUCell, "cell without bias", bias=False)
OUT.write("recurrent.json.gz")
