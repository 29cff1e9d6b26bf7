"""The peers of Weft's benchmarks: PyTorch and JAX on the CPU.

    peer.py torch [--passive] [--keep-memory]
    peer.py jax [--threads N] [--keep-memory]

A Go benchmark starts this program and interleaves it with its own runs: one
JSON request a line on standard input, one JSON answer a line on standard
output, until the input ends.

    {"bench": "info"}
    {"bench": "sgemm", "n": 1024, "threads": 1, "warmup": 1, "reps": 3}

The answer repeats the request and adds

    seconds   a list: one time for each repetition
    work      what one time covers, such as "call", "step" or "epoch"
    elements  elements of the main array, where there is one
    program   name and version of the peer, and what else there is to know

or is {"error": "..."}. What a benchmark needs is built on its first request
and kept for the following ones, so asking for one repetition at a time is
cheap; the few latest benchmarks are kept. peer_torch.py and peer_jax.py list
the benchmarks and their parameters. With --keep-memory malloc never returns
memory (glibc only); give it three warm-up repetitions to grow.
"""

import collections
import ctypes
import importlib
import json
import os
import sys
import time

KEPT = 3  # benchmarks whose tensors stay in memory


class Peer:
    """A module with BENCHES, functions that return (run, facts) - run() is what is timed, or returns its own time in
    seconds - and with FACTS and set_threads(n)."""

    def __init__(self, module):
        self.module = module
        self.ready = collections.OrderedDict()

    def prepared(self, name, params):
        """The benchmark with its tensors, built unless it is among the latest."""
        key = json.dumps([name, params], sort_keys=True)
        if key not in self.ready:
            while len(self.ready) >= KEPT:
                self.ready.popitem(last=False)
            self.ready[key] = self.module.BENCHES[name](**params)
        self.ready.move_to_end(key)
        return self.ready[key]

    def answer(self, request):
        params = dict(request)
        name = params.pop("bench", None)
        threads, warmup, reps = (int(params.pop(k, d)) for k, d in (("threads", 1), ("warmup", 0), ("reps", 1)))
        benches = sorted(self.module.BENCHES)
        if name == "info":
            return {**request, **self.module.FACTS, "benches": benches}
        if name not in benches:
            raise ValueError(f"no benchmark {name!r}; there are {benches}")
        if "pass" in params:
            params["direction"] = params.pop("pass")
        self.module.set_threads(threads)
        run, facts = self.prepared(name, params)
        seconds = [timed(run) for _ in range(warmup + reps)][warmup:]
        return {**request, **facts, **self.module.FACTS, "seconds": seconds}


def timed(run):
    start = time.perf_counter()
    own = run()
    elapsed = time.perf_counter() - start
    return own if isinstance(own, float) else elapsed


def keep_memory():
    """Makes glibc's malloc serve large blocks from the heap and never give them back."""
    m_trim_threshold, m_mmap_max = -1, -4
    libc = ctypes.CDLL(None)
    if not (libc.mallopt(m_mmap_max, 0) and libc.mallopt(m_trim_threshold, -1)):
        raise RuntimeError("mallopt failed")


def main():
    # Only answers go to standard output; whatever a peer prints does not.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if len(sys.argv) < 2 or sys.argv[1] not in ("torch", "jax"):
        sys.exit("usage: peer.py torch|jax [flags]")
    name = sys.argv.pop(1)
    if "--keep-memory" in sys.argv:
        sys.argv.remove("--keep-memory")
        keep_memory()
    peer, missing = None, ""
    try:
        peer = Peer(importlib.import_module("peer_" + name))
    except (ImportError, RuntimeError) as error:
        missing = f"{name} cannot be a peer: {error}"
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            answer = peer.answer(json.loads(line)) if peer else {"error": missing}
        except Exception as error:  # a bad request must not end the process
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            print(json.dumps(answer), file=answers, flush=True)
        except BrokenPipeError:
            os._exit(0)  # nobody listens any more; closing the pipe again would fail too


if __name__ == "__main__":
    main()
