"""State dicts of models, with operands and results: testdata of checkpoint.

resnet18.pt is the architecture of torchvision's resnet18 under its names, with
2 channels in place of 64 and 5 classes, its running statistics moved by three
batches; lstm.pt is an nn.LSTM of two layers in both directions. Each file is
{"model": the state dict, "x": operand, "y": result in evaluation}, lstm.pt
also {"h": .., "c": ..}, the states after.

Run: /usr/bin/python3 scripts/goldens/state_dicts.py
"""

import pathlib

import torch
from torch import nn

DIR = pathlib.Path(__file__).parents[2] / "checkpoint" / "testdata"
WIDTH, CLASSES = 2, 5


def conv(inputs, outputs, size, stride):
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3, 1), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, width=64, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = conv(3, width, 7, 2), nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(Block(width, width, 1), Block(width, width, 1))
        for stage in (1, 2, 3):
            outputs = width << stage
            blocks = nn.Sequential(Block(outputs // 2, outputs, 2), Block(outputs, outputs, 1))
            setattr(self, f"layer{stage + 1}", blocks)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet18():
    model = ResNet18(WIDTH, CLASSES)
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
