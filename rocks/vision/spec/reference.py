"""Writes the results of torchvision's models: the state, an input, outputs in evaluation and
training mode (float64), and a projection of each parameter's gradient. compare.lua reads it:

    python reference.py FOLDER resnet18 vgg11    # writes FOLDER/resnet18.pt and FOLDER/vgg11.pt
"""
import math
import sys

import torch
import torchvision

SIZES = {"inception_v3": 299, "maxvit_t": 224, "vit_h_14": 56}
OPTIONS = {"vit": {"image_size": 64}, "vit_h_14": {"image_size": 56}}
VIDEO = {"r3d_18": (4, 32, 32), "mc3_18": (4, 32, 32), "r2plus1d_18": (4, 32, 32), "s3d": (16, 224, 224),
         "swin3d_t": (18, 64, 60), "swin3d_s": (4, 32, 32), "swin3d_b": (4, 32, 32), "mvit_v1_b": (8, 64, 64),
         "mvit_v2_s": (8, 64, 64)}

make_mvit = torchvision.models.video.mvit._mvit  # its callers in torchvision fix the size
torchvision.models.video.mvit._mvit = lambda spatial_size, temporal_size, **rest: make_mvit(
    spatial_size=(64, 64), temporal_size=8, **rest)


def first(output):
    """Returns the tensors of an output, which may be a tuple or a dictionary."""
    if isinstance(output, torch.Tensor):
        return [output]
    values = output.values() if isinstance(output, dict) else output
    return [value for value in values if isinstance(value, torch.Tensor)]


def without_chance(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0


def projection(gradient):
    """Returns the sum of the gradient's elements times cos(1), cos(2), ..., and the gradient's norm divided by
    the square root of 2."""
    flat = gradient.detach().double().flatten()
    wave = torch.cos(torch.arange(1, flat.numel() + 1, dtype=torch.float64))
    return torch.stack([(flat * wave).sum(), flat.norm() * math.sqrt(0.5)])


def save(name, path):
    torch.manual_seed(1)
    options = OPTIONS.get(name) or OPTIONS.get(name.split("_")[0]) or {}
    quiet = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    extra = {"weights_backbone": None} if "fcn" in name or "lab" in name or "raspp" in name else {}
    model = torchvision.models.get_model(name, weights=None, num_classes=10, **extra, **options, **quiet)
    for parameter in model.parameters():  # no zeros that would hide an error
        if parameter.std() == 0 or parameter.numel() == 1:
            parameter.data += torch.randn_like(parameter) * 0.1
    for key, parameter in model.named_parameters():
        if key.endswith("layer_scale"):
            parameter.data = torch.rand_like(parameter) + 0.5
        if key == "heads.head.weight":
            parameter.data.normal_(0, 0.05)
    for key, buffer in model.named_buffers():
        if key.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        if key.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    without_chance(model)
    size = SIZES.get(name, 64)
    image = torch.randn(2, 3, size, size)
    if name in VIDEO:
        image = torch.randn(1, 3, *VIDEO[name])
    saved = {"state." + key: value.clone() for key, value in model.state_dict().items()}
    saved["input"] = image
    model.eval()
    with torch.no_grad():
        for i, output in enumerate(first(model(image))):
            saved[f"eval.{i}"] = output.contiguous()
    model.train().double()  # batch statistics of few pixels are too badly conditioned for float32
    outputs = first(model(image.double()))
    loss = 0.0
    for i, output in enumerate(outputs):
        saved[f"train.{i}"] = output.detach().contiguous()
        weight = torch.sin(torch.arange(1, output.numel() + 1, dtype=torch.float64))
        loss = loss + (output * weight.view_as(output)).sum()
    loss.backward()
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            saved["gradient." + key] = projection(parameter.grad)
    torch.save(saved, path)


if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[2:]:
        save(name, f"{sys.argv[1]}/{name}.pt")
