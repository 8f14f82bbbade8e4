"""Compares the speed of models with torchvision's, on one thread:

    python rocks/vision/spec/bench/models.py build/tlua [NAME...]

Prints a line for each model: torchvision's milliseconds, and the quotients of torchvision's time and tlua's, for forward passes of
batches of 1 and 8 images of 224 x 224 pixels and for a training step of 8. Without names, one model of each of 17 families.
"""
import os
import subprocess
import sys
import time

import torch
import torchvision

here = os.path.dirname(os.path.abspath(__file__))
command = sys.argv[1]
names = sys.argv[2:] or ("alexnet vgg11 resnet18 resnet50 resnext50_32x4d densenet121 googlenet squeezenet1_1 "
                         "shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_small mnasnet1_0 efficientnet_b0 regnet_y_400mf "
                         "convnext_tiny vit_b_16 swin_t").split()
torch.set_num_threads(1)
torch.manual_seed(0)


def measure(fn, n):
    fn()
    best = 1e9
    for _ in range(n):
        start = time.process_time()
        fn()
        best = min(best, time.process_time() - start)
    return best * 1e3


def theirs(name):
    options = {"init_weights": False} if name == "googlenet" else {}
    model = torchvision.models.get_model(name, num_classes=1000, **options)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(x, y):
        sgd.zero_grad()
        out = model(x)
        torch.nn.functional.cross_entropy(out if torch.is_tensor(out) else out.logits, y).backward()
        sgd.step()

    results = []
    for n in (1, 8):
        x, y = torch.randn(n, 3, 224, 224), torch.randint(0, 1000, (n,))
        model.eval()
        with torch.no_grad():
            results.append(measure(lambda: model(x), 5 if n == 1 else 3))
        if n > 1:
            model.train()
            results.append(measure(lambda: step(x, y), 2))
    return results


print(f"{'model':22}{'1':>9}{'8':>9}{'step 8':>9} ms    1      8  step 8")
quotients = []
for name in names:
    out = subprocess.run([command, here + "/models.lua", name], capture_output=True, text=True)
    if out.returncode:
        print(f"{name:22}{out.stderr.strip().splitlines()[0]}", flush=True)
        continue
    ours, them = [float(word) for word in out.stdout.split()], theirs(name)
    row = [b / a for a, b in zip(ours, them)]
    quotients += row
    print(f"{name:22}" + "".join(f"{ms:9.1f}" for ms in them) + "   " + "".join(f"{q:7.2f}" for q in row), flush=True)
print(f"mean {sum(quotients) / len(quotients):.2f}, least {min(quotients):.2f}")
