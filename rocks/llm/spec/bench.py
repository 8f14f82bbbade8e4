"""Measures llama.cpp (PyPI's llama-cpp-python) as bench.lua measures tlua: bench.py model.gguf [threads] [prompt] [new]"""
import resource
import statistics
import sys
import time

import llama_cpp
import numpy as np

path, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
length, new = (int(sys.argv[i]) if len(sys.argv) > i else d for i, d in ((3, 128), (4, 64)))
model = llama_cpp.Llama(path, n_ctx=512, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
tokens = [7 * i % 200 + 60 for i in range(1, length + 1)]
first, rest = [], []
for run in range(4):
    model.reset()
    start = time.perf_counter()
    model.eval(tokens)
    token = int(np.argmax(model._scores[-1]))
    begin = time.perf_counter()
    for _ in range(new):
        model.eval([token])
        token = int(np.argmax(model._scores[-1]))
    if run > 0:
        first.append(begin - start)
        rest.append((time.perf_counter() - begin) / new)
print(f"llama.cpp, {threads} threads: prompt {length / statistics.median(first):.1f} tokens/s, "
      f"new {1 / statistics.median(rest):.1f} tokens/s, first token {statistics.median(first) * 1e3:.1f} ms, "
      f"resident {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
