# layers.py - runs the models that layers.lua has exported by onnxruntime, after onnx.checker:
#
#    python rocks/onnx/spec/layers.py FOLDER
#
# Prints the largest difference of each model's outputs, relative to their largest element.
import glob
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(3)
passed, total = 0, 0
for path in sorted(glob.glob(sys.argv[1] + "/*.onnx")):
    name = os.path.basename(path)[:-5]
    total += 1
    try:
        onnx.checker.check_model(path, full_check=True)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        worst = 0.0
        for k in (0, 1):
            at = f"{sys.argv[1]}/{name}.{k}"
            feeds = {f"in{i + 1}": np.load(f"{at}.in{i + 1}.npy") for i in range(len(glob.glob(at + ".in*.npy")))}
            for i, got in enumerate(session.run(None, feeds)):
                wanted = np.load(f"{at}.out{i + 1}.npy")
                assert got.shape == wanted.shape and got.dtype == wanted.dtype, f"{got.shape} {got.dtype}, not {wanted.shape} {wanted.dtype}"
                if wanted.size:
                    scale = np.abs(wanted.astype(np.float64)).max() + 1e-12
                    worst = max(worst, np.abs(got.astype(np.float64) - wanted).max() / scale)
        print(f"{name:32s} {worst:.2e}" + ("" if worst <= 1e-4 else "  DIFFERS"))
        passed += worst <= 1e-4
    except Exception as why:
        print(f"{name:32s} FAILS: {str(why)[:300]}")
print(f"{passed} of {total} models: checked, run, and equal to 1e-4 for two sizes")
