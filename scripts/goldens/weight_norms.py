"""Goldens of weight norm, spectral norm and normalize: weight_norms.json.gz.

modules.py says what they hold.

Run: /usr/bin/python3 scripts/goldens/weight_norms.py
"""

from torch import nn
from torch.nn.functional import normalize
from torch.nn.utils import spectral_norm, weight_norm

from modules import *


class Normalize(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x):
        return normalize(x, **self.options)


def case(name, module, *shape, wrap=lambda m: m, scale=1.0):
    seed(name)
    record(name, wrap(module), [[randn(*shape) * scale] for _ in range(4)])


case("weight linear", nn.Linear(4, 3), 2, 4, wrap=weight_norm)
case("weight linear axis 1", nn.Linear(4, 3), 2, 4, wrap=lambda m: weight_norm(m, dim=1))
case("weight conv", nn.Conv2d(2, 3, 2), 2, 2, 4, 3, wrap=weight_norm)
case("weight transposed", nn.ConvTranspose1d(2, 3, 2, bias=False), 2, 2, 4, wrap=weight_norm)
case("spectral linear", nn.Linear(4, 3), 2, 4, wrap=spectral_norm)
case("spectral conv", nn.Conv2d(2, 3, 2), 2, 2, 4, 3, wrap=spectral_norm)
case("spectral conv axis 2", nn.Conv2d(2, 3, 2), 2, 2, 4, 3, wrap=lambda m: spectral_norm(m, dim=2))
case("spectral transposed", nn.ConvTranspose1d(2, 3, 2), 2, 2, 4, wrap=spectral_norm)
case("spectral iterations", nn.Linear(4, 3, bias=False), 2, 4,
     wrap=lambda m: spectral_norm(m, n_power_iterations=3, eps=1e-3))
case("normalize", Normalize(), 3, 4)
case("normalize 1", Normalize(p=1.0, dim=0), 3, 4)
case("normalize 3", Normalize(p=3.0, dim=-1), 2, 3, 4)
case("normalize inf", Normalize(p=float("inf"), dim=1), 2, 3, 4)
case("normalize eps", Normalize(eps=2.0), 4, 4)
OUT.write("weight_norms.json.gz")
