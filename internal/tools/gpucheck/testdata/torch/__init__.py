"""A stand-in that has whatever it is asked for and computes nothing: gpu-peer.py runs with it from end to end."""
import itertools
import sys

__version__ = "none"


elapsed = itertools.count(1)


class Anything:
    shape = ()

    def __init__(self, *args, **names):
        pass

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **names):
        return Anything()

    __add__ = __mul__ = __matmul__ = __call__

    def __enter__(self):
        pass

    def __exit__(self, *args):
        pass

    def get_device_name(self):
        return "none"

    def elapsed_time(self, end):
        return next(elapsed)


class Type:
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __str__(self):
        return "torch." + self.name


class version:
    cuda = "none"


float32, bfloat16, float16 = Type("float32", 4), Type("bfloat16", 2), Type("float16", 2)


def __getattr__(name):
    return Anything()


sys.modules["torch.nn"] = sys.modules["torch.nn.functional"] = Anything()
