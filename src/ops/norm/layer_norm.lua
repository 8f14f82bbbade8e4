-- Operators that normalise a tensor, or the sum of two tensors, over the last dimensions. See
-- norm.lua.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {[[layer_norm(Tensor input, int[] normalized_shape, Tensor weight=nil, Tensor bias=nil,
      float eps=1e-05) -> Tensor]],
   doc = [[Normalises over the last dimensions, whose sizes are normalized_shape, then scales by
   weight and shifts by bias of that shape.]],
   also = true, composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), 4, T(4), T(4)", "T(2, 3, 4), {3, 4}, T(3, 4)", "T(2, 3, 4), 4",
               "T(2, 4), 4, nil, T(4)"}}
example("layer_norm", [=[
   local x = torch.tensor {{1.0, 3.0}, {10.0, 30.0}}
   print(torch.nn.functional.layer_norm(x, {2}))
   --> tensor([[-1.0000,  1.0000],
   -->         [-1.0000,  1.0000]])]=])
op {[[layer_norm_core(Tensor input, int dims, Tensor weight, Tensor bias, float eps)
      -> (Tensor result, Tensor mean, Tensor rstd)]],
    name = "layer_norm", node = "NativeLayerNorm", internal = true,
    nograd = {mean = true, rstd = true},
    grad = {["input, weight, bias"] = [[layer_norm_backward(grad_result, input, dims, weight, mean,
    rstd, eps, needs(input), needs(weight), needs(bias))]]}}
op {[[layer_norm_backward(Tensor grad_output, Tensor input, int dims, Tensor weight, Tensor mean,
      Tensor rstd, float eps, bool want_input, bool want_weight, bool want_bias)
      -> (Tensor input, Tensor weight, Tensor bias)]],
    internal = true, composite = true}
F {"rms_norm(Tensor input, int[] normalized_shape, Tensor weight=nil, float eps=nil) -> Tensor",
   doc = [[Computes input / sqrt(mean(input^2) + eps) * weight over the last dimensions, whose sizes
   are normalized_shape; eps is the dtype's epsilon unless given.]],
   also = true, composite = true,
   autocast = {gpu = "float32"}, examples = {"T(3, 4), 4, T(4)", "T(2, 3, 4), {3, 4}, nil, 0.01"}}
op {[[rms_norm_core(Tensor input, int dims, Tensor weight, float eps)
      -> (Tensor result, Tensor rstd)]],
    name = "rms_norm", internal = true,
    nograd = {rstd = true},
    grad = {["input, weight"] = [[rms_norm_backward(grad_result, input, dims, weight, rstd, eps,
    needs(input), needs(weight))]]}}
op {[[rms_norm_backward(Tensor grad_output, Tensor input, int dims, Tensor weight, Tensor rstd,
      float eps, bool want_input, bool want_weight) -> (Tensor input, Tensor weight)]],
    internal = true, composite = true}
-- Normalises the sum of an input and a residual in one pass. The sum is returned as well, because
-- residual networks need it.
F {[[add_layer_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor weight=nil,
      Tensor bias=nil, float eps=1e-05) -> (Tensor result, Tensor sum)]],
   doc = [[Returns layer_norm(input + residual, normalized_shape, weight, bias, eps), and input +
   residual, computed in one pass. input and residual have the same shape.]],
   composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), T(3, 4), 4, T(4), T(4)", "T(2, 3, 4), T(2, 3, 4), {3, 4}, T(3, 4)",
               "T(2, 4), T(2, 4), 4, nil, T(4)"}}
op {[[add_layer_norm_core(Tensor input, Tensor residual, int dims, Tensor weight, Tensor bias,
      float eps) -> (Tensor result, Tensor sum, Tensor mean, Tensor rstd)]],
    name = "add_layer_norm", internal = true, materialize = false,
    nograd = {mean = true, rstd = true},
    grad = {["input, residual, weight, bias"] = [[add_layer_norm_backward(grad_result, grad_sum,
    sum, dims, weight, mean, rstd, eps, needs(input), needs(residual), needs(weight),
    needs(bias))]]}}
op {[[add_layer_norm_backward(Tensor grad_output, Tensor grad_sum, Tensor sum, int dims,
      Tensor weight, Tensor mean, Tensor rstd, float eps, bool want_input, bool want_residual,
      bool want_weight, bool want_bias)
      -> (Tensor input, Tensor residual, Tensor weight, Tensor bias)]],
    internal = true, composite = true}
F {[[add_rms_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor weight=nil,
      float eps=nil) -> (Tensor result, Tensor sum)]],
   doc = [[Returns rms_norm(input + residual, normalized_shape, weight, eps), and input + residual,
   computed in one pass. input and residual have the same shape.]],
   composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(3, 4), T(3, 4), 4, T(4)", "T(2, 3, 4), T(2, 3, 4), {3, 4}, nil, 0.01"}}
op {[[add_rms_norm_core(Tensor input, Tensor residual, int dims, Tensor weight, float eps)
      -> (Tensor result, Tensor sum, Tensor rstd)]],
    name = "add_rms_norm", internal = true, materialize = false,
    nograd = {rstd = true},
    grad = {["input, residual, weight"] = [[add_rms_norm_backward(grad_result, grad_sum, sum, dims,
    weight, rstd, eps, needs(input), needs(residual), needs(weight))]]}}
op {[[add_rms_norm_backward(Tensor grad_output, Tensor grad_sum, Tensor sum, int dims,
      Tensor weight, Tensor rstd, float eps, bool want_input, bool want_residual, bool want_weight)
      -> (Tensor input, Tensor residual, Tensor weight)]],
    internal = true, composite = true}

takes_complex "rms_norm"
