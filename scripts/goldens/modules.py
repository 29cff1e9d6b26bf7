"""Records modules of torch.nn, for norms.py and recurrent.py.

A module runs some training steps on inputs of their own, in which the gradient
of sum(output * weight) is taken, and then one in evaluation:

    MODULE/init/NAME           parameters and buffers before the first step
    MODULE/STEP/xI, /yI, /wI   operands, results and the weights; STEP counts from 0
    MODULE/STEP/grad/xI        gradients of the operands
    MODULE/STEP/grad/NAME      and of the parameters
    MODULE/STEP/state/NAME     buffers after the step

Results are float64, of parameters, inputs and weights in float32.
"""

import os
import sys
import zlib

import torch

import golden

OUT = golden.File("scripts/goldens/" + os.path.basename(sys.argv[0]))


def seed(name):
    torch.manual_seed(zlib.crc32(name.encode()))


def randn(*shape):
    return torch.randn(shape).double()


def flat(value):
    """Results in order: (y, (h, c)) becomes y, h, c."""
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in flat(v)]
    return [value]


def record(name, module, steps, call=None):
    """Runs module, in evaluation on the last of the steps, which are lists of operands."""
    call = call or (lambda m, *x: m(*x))
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_((torch.randn(p.shape) * 0.5 + 0.25).double())
    for key, value in module.state_dict().items():
        OUT.add(f"{name}/init/{key}", value.float())
    for step, inputs in enumerate(steps):
        at, training = f"{name}/{step}", step < len(steps) - 1
        module.train(training)
        module.zero_grad()
        inputs = [x.float().double().requires_grad_(True) for x in inputs]
        outputs = flat(call(module, *inputs))
        for i, x in enumerate(inputs):
            OUT.add(f"{at}/x{i}", x.float())
        for i, y in enumerate(outputs):
            OUT.add(f"{at}/y{i}", y)
        for key, value in module.named_buffers():
            OUT.add(f"{at}/state/{key}", value.double())
        if not training:
            continue
        weights = [torch.randint(-8, 9, y.shape) / 4 for y in outputs]
        for i, w in enumerate(weights):
            OUT.add(f"{at}/w{i}", w)
        sum((y * w).sum() for y, w in zip(outputs, weights)).backward()
        for i, x in enumerate(inputs):
            OUT.add(f"{at}/grad/x{i}", x.grad)
        for key, p in module.named_parameters():
            OUT.add(f"{at}/grad/{key}", p.grad)
