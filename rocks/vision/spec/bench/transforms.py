"""Measures torchvision as transforms.lua measures tlua: one thread, processor time.

    python transforms.py ours.txt    # prints name, tlua's ms, torchvision's ms and their quotient
"""
import sys
import time
import torch
import torch.nn.functional
from torchvision import ops
from torchvision.io import decode_jpeg, encode_jpeg
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
ours = {}
if len(sys.argv) > 1:
    for line in open(sys.argv[1]):
        name, ms = line.rstrip("\n").split("\t")
        ours[name] = float(ms)


def measure(name, fn, n=20):
    fn()
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        for _ in range(n):
            fn()
        best = min(best, (time.process_time() - start) / n)
    ms = best * 1e3
    if name in ours:
        print(f"| {name} | {ours[name]:.3f} | {ms:.3f} | {ms / ours[name]:.2f} |")
    else:
        print(f"{name}\t{ms:.4f}")


small = torch.rand(1, 3, 24, 32)
smooth = torch.nn.functional.interpolate(small, size=(375, 500), mode="bicubic", align_corners=False)[0]
picture = (smooth.clamp(0, 1) * 255 + torch.randn(3, 375, 500) * 6).clamp(0, 255).to(torch.uint8)
data = encode_jpeg(picture, 90)
image = decode_jpeg(data)
square = F.resize(image, [224, 224]).contiguous()
real = F.to_dtype(square, torch.float32, True)
mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
pipeline = v2.Compose([v2.RandomResizedCrop(224), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, True),
                       v2.Normalize(mean, std)])

measure("decode", lambda: decode_jpeg(data))
measure("resize 224", lambda: F.resize(image, [224, 224]))
measure("resized_crop 224", lambda: F.resized_crop(image, 40, 60, 250, 300, [224, 224]))
measure("resize 224, bicubic", lambda: F.resize(image, [224, 224], "bicubic"))
measure("flip", lambda: F.horizontal_flip(square))
measure("to float32", lambda: F.to_dtype(square, torch.float32, True))
measure("normalize", lambda: F.normalize(real, mean, std))
measure("decode, crop, flip, normalise", lambda: pipeline(decode_jpeg(data)))
measure("brightness", lambda: F.adjust_brightness(square, 1.3))
measure("contrast", lambda: F.adjust_contrast(square, 1.3))
measure("saturation", lambda: F.adjust_saturation(square, 1.3))
measure("hue", lambda: F.adjust_hue(square, 0.1))
measure("sharpness", lambda: F.adjust_sharpness(square, 1.5))
measure("equalize", lambda: F.equalize(square))
measure("autocontrast", lambda: F.autocontrast(square))
measure("posterize", lambda: F.posterize(square, 4))
measure("blur 5", lambda: F.gaussian_blur(square, 5, 1.2))
measure("rotate", lambda: F.rotate(square, 20))
measure("rotate, bilinear", lambda: F.rotate(square, 20, "bilinear", fill=0))
start, end = [[0, 0], [223, 0], [223, 223], [0, 223]], [[9, 5], [211, 8], [220, 215], [4, 219]]
measure("perspective", lambda: F.perspective(square, start, end, fill=0))


def augment():
    torch.manual_seed(1)
    for _ in range(10):
        v2.RandAugment()(square)


measure("RandAugment", augment, 2)
for n in [100, 1000, 3000]:
    corner = torch.rand(n, 2) * 400
    boxes, scores = torch.cat([corner, corner + torch.rand(n, 2) * 40 + 1], 1), torch.rand(n)
    measure(f"nms {n}", lambda: ops.nms(boxes, scores, 0.5), 3)
features = torch.rand(1, 64, 50, 50)
corner = torch.rand(100, 2) * 30
rois = [torch.cat([corner, corner + torch.rand(100, 2) * 18 + 1], 1)]
measure("roi_align 100", lambda: ops.roi_align(features, rois, 7, sampling_ratio=2), 3)
measure("roi_pool 100", lambda: ops.roi_pool(features, rois, 7), 3)
groups = torch.rand(1, 98, 50, 50)
measure("ps_roi_align 100", lambda: ops.ps_roi_align(groups, rois, 7, sampling_ratio=2), 3)
measure("ps_roi_pool 100", lambda: ops.ps_roi_pool(groups, rois, 7), 3)
offset, weight = torch.randn(1, 18, 50, 50), torch.randn(64, 64, 3, 3)
measure("deform_conv2d", lambda: ops.deform_conv2d(features, offset, weight, padding=1), 3)
