"""State dicts of models, with operands and results: testdata of checkpoint.

resnet18.pt is torchvision's resnet18, whose convolutions, norms and classifier
are replaced by others with a 32nd of the channels and 5 classes; its running
statistics were moved by three batches. lstm.pt is an nn.LSTM of two layers in
both directions. Each file is {"model": the state dict, "x": operand, "y":
result in evaluation}, lstm.pt also {"h": .., "c": ..}, the states after.

Run: /usr/bin/python3 scripts/goldens/state_dicts.py
"""

import pathlib

import torch
import torchvision
from torch import nn

DIR = pathlib.Path(__file__).parents[2] / "checkpoint" / "testdata"
PART, CLASSES = 32, 5


def narrow(m):
    """The same layer with fewer channels, but for the pixels of the first; None if it has none."""
    if isinstance(m, nn.Conv2d):
        inputs = m.in_channels // PART or m.in_channels
        return nn.Conv2d(inputs, m.out_channels // PART, m.kernel_size, m.stride, m.padding, m.dilation, m.groups,
                         m.bias is not None, m.padding_mode)
    if isinstance(m, nn.BatchNorm2d):
        return nn.BatchNorm2d(m.num_features // PART, m.eps, m.momentum, m.affine, m.track_running_stats)
    if isinstance(m, nn.Linear):
        return nn.Linear(m.in_features // PART, CLASSES)


def resnet18():
    model = torchvision.models.resnet18()
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if layer := narrow(child):
                setattr(parent, name, layer)
    for p in model.parameters():  # norms begin as ones and zeros, under which mistakes hide
        if p.dim() == 1:
            p.data += 0.3 * torch.randn_like(p)
    for _ in range(3):
        model(torch.randn(8, 3, 70, 70))
    model.eval()
    x = torch.randn(1, 3, 37, 50)
    return {"model": model.state_dict(), "x": x, "y": model(x).detach()}


def lstm():
    model = nn.LSTM(3, 5, num_layers=2, bidirectional=True)
    x = torch.randn(7, 2, 3)
    y, (h, c) = model(x)
    return {"model": model.state_dict(), "x": x, "y": y.detach(), "h": h.detach(), "c": c.detach()}


if __name__ == "__main__":
    DIR.mkdir(exist_ok=True)
    for make in (resnet18, lstm):
        torch.manual_seed(1)
        torch.save(make(), DIR / f"{make.__name__}.pt")
