"""Goldens of the norms over channels: norms.json.gz.

modules.py says what they hold.

Run: /usr/bin/python3 scripts/goldens/norms.py
"""

from torch import nn

from modules import *

SHAPES = {1: (4, 3, 5), 2: (3, 2, 4, 3), 3: (2, 3, 2, 3, 2)}
CLASSES = {
    "batch": {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d},
    "instance": {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d},
}


def norm(name, make, shape, steps=3, offset=0.0, **options):
    seed(name)
    record(name, make(**options), [[randn(*shape) * 2 + offset] for _ in range(steps)])


for kind, classes in CLASSES.items():
    for axes, make in classes.items():
        norm(f"{kind}{axes}d", make, SHAPES[axes], num_features=SHAPES[axes][1])
        norm(f"{kind}{axes}d other", make, SHAPES[axes], num_features=SHAPES[axes][1], eps=1e-2, momentum=0.3,
             affine=kind == "instance", track_running_stats=kind == "instance")
BATCH = CLASSES["batch"]
norm("batch1d no axes", BATCH[1], (5, 3), num_features=3)
norm("batch1d cumulative", BATCH[1], (5, 3), steps=5, num_features=3, momentum=None)
norm("batch1d momentum 0", BATCH[1], (5, 3), num_features=3, momentum=0.0)
norm("batch1d momentum 1", BATCH[1], (5, 3), num_features=3, momentum=1.0)
norm("batch2d offset", BATCH[2], (3, 2, 4, 4), num_features=2, offset=10.0)
norm("batch2d one", BATCH[2], (1, 2, 2, 1), num_features=2)
norm("instance2d plain statistics", CLASSES["instance"][2], (2, 3, 2, 2), num_features=3, track_running_stats=True)
norm("group", nn.GroupNorm, (3, 6, 4, 2), num_groups=3, num_channels=6)
norm("group of all", nn.GroupNorm, (3, 4), num_groups=1, num_channels=4, eps=1e-3)
norm("group of one", nn.GroupNorm, (2, 3, 5), num_groups=3, num_channels=3, affine=False)
OUT.write("norms.json.gz")
