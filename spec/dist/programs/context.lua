-- context.lua - makes the device mesh of the ranks.

nn, F = torch.nn, torch.nn.functional
x = dist.tensor.experimental
mesh = dist.init_device_mesh("cpu", {size})
