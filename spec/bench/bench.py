"""Runs the rows of bench.lua in PyTorch: bench.py [DEVICE [CLOCK]] reads requests
from stdin, one in each line, and answers each with one line on stdout. With the
CLOCK "cpu", seconds are processor time.

    threads N           -> ok
    setup TEXT \x1e TEXT -> ok, or "error ..."    code that runs once, code that is timed
    run N               -> seconds for N rounds

Lines within a text are separated by \x1f.
"""

import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
CLOCK = time.process_time if sys.argv[2:] == ["cpu"] else time.perf_counter


def compile_row(setup, code):
    """Returns a function that runs a number of rounds and returns the seconds."""
    lines = ["def make():"]
    lines += ["    " + line for line in setup]
    lines += ["    def run(rounds):", "        wait()", "        start = clock()", "        for _ in range(rounds):"]
    lines += ["            " + line for line in code]
    lines += ["        wait()", "        return clock() - start", "    return run"]
    wait = torch.cuda.synchronize if DEVICE.startswith("cuda") else lambda: None
    scope = {"torch": torch, "nn": nn, "F": F, "clock": CLOCK, "wait": wait}
    exec("\n".join(lines), scope)
    return scope["make"]()


def answer(request, state):
    word, _, rest = request.partition(" ")
    if word == "threads":
        torch.set_num_threads(int(rest))
        return "ok"
    if word == "setup":
        state["run"] = None  # first releases the memory of the previous row
        setup, code = (text.split("\x1f") for text in rest.split("\x1e"))
        torch.manual_seed(1)
        state["run"] = compile_row(setup, code)
        state["run"](1)
        return "ok"
    return repr(state["run"](int(rest)))


def main():
    state = {}
    if DEVICE != "cpu":
        torch.set_default_device(DEVICE)
    print("torch " + torch.__version__, flush=True)
    for request in sys.stdin:
        try:
            text = answer(request.rstrip("\n"), state)
        except Exception as fault:  # this version of PyTorch cannot run the row
            text = "error " + str(fault).split("\n")[0]
        print(text, flush=True)


main()
