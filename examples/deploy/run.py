# run.py - reads the digits with ONNX Runtime, from the ONNX file of export.lua:
#
#    python3 examples/deploy/run.py digits.onnx examples/data/digits.csv
import sys
import numpy as np
import onnxruntime

rows = np.loadtxt(sys.argv[2], delimiter=",", dtype="float32")
session = onnxruntime.InferenceSession(sys.argv[1])
(scores,) = session.run(None, {"input": rows[:, :64].reshape(-1, 1, 8, 8) / 16})
print(f"{(scores.argmax(1) == rows[:, 64]).sum()} of {len(rows)} digits read right")
