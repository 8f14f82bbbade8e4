# infer.mk - what `make PROFILE=infer` keeps: a library for trained models in C programs, without
# derivatives, optimizers, process groups, profiler, torch.export, complex numbers and REPL.

# Operators, by their names in Lua or C; `make PROFILE=infer OPS='...'` gives others. A call of one
# that is not here fails with its name. The last line has what layers and other operators call.
OPS ?= conv1d conv2d linear relu sigmoid tanh gelu max_pool2d avg_pool2d flatten softmax \
  log_softmax argmax add sub mul div true_divide neg batch_norm matmul view reshape permute \
  transpose narrow select contiguous to cpu float zeros ones empty eq clone detach squeeze \
  unsqueeze expand as_strided dropout \
  linear_relu linear_gelu convolution max_windows average_windows uniform_ normal_ fill_ zero_ copy_

# Families of kernels for more operators, such as rnn, scan, sort, vision. The others need these.
KERNEL_FAMILIES ?=
BASE_FAMILIES := attention conv copy creation index linalg matmul norm pointwise pool random reduce

# Modules in Lua: layers, and reading weights.
INFER_LUA := init lazy names class args scope checked packages utils/suggest utils/near utils/json \
  nn/% nn/modules/% io/init io/formats io/kinds io/place io/source io/values io/tree io/safetensors io/replace \
  autograd/zero_grad
INFER_LUA_NOT := nn/modules/%Loss% nn/modules/losses nn/modules/Transformer nn/modules/MultiheadAttention \
  nn/modules/SyncBatchNorm nn/modules/LinearCrossEntropy% nn/summary
