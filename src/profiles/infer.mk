# infer.mk - lists the parts of the library that `make PROFILE=infer` builds: a library that runs
# trained models in C programs. It has no derivatives, optimizers, process groups, profiler,
# torch.export, complex numbers or interactive mode.

# The operators, by their names in Lua or C; `make PROFILE=infer OPS='...'` sets others. Calling an
# operator that is left out raises an error with its name. The last line has operators that layers
# and other operators call.
OPS ?= conv1d conv2d linear relu sigmoid tanh gelu max_pool2d avg_pool2d flatten softmax \
  log_softmax argmax add sub mul div true_divide neg batch_norm matmul view reshape permute \
  transpose narrow select contiguous to cpu float zeros ones empty eq clone detach squeeze \
  unsqueeze expand as_strided dropout \
  linear_relu linear_gelu convolution max_windows average_windows uniform_ normal_ fill_ zero_ copy_

# KERNEL_FAMILIES adds families of kernels for more operators, such as rnn, scan, sort and vision.
# BASE_FAMILIES are always built, since the operators above need them.
KERNEL_FAMILIES ?=
BASE_FAMILIES := attention conv copy creation index linalg matmul norm pointwise pool random reduce

# The Lua modules: layers, and reading weights.
INFER_LUA := init lazy names class args scope checked packages utils/suggest utils/near utils/json \
  nn/% nn/modules/% io/init io/formats io/kinds io/place io/source io/values io/tree io/safetensors io/replace \
  autograd/zero_grad
INFER_LUA_NOT := nn/modules/%Loss nn/modules/losses nn/modules/Transformer nn/modules/MultiheadAttention \
  nn/modules/SyncBatchNorm nn/modules/LinearCrossEntropy% nn/summary nn/hooks nn/parallel/%
