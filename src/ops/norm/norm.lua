-- Operators that normalise, that is, shift and scale elements to mean 0 and variance 1, and related
-- operators. Each operator has a fused derivative for ordinary backward passes. While a graph of
-- the gradient itself is recorded, differentiable operators compute the derivative instead.

local function F(entry)
   entry.module, entry.method = "nn.functional", false
   op(entry)
end

F {[[batch_norm(Tensor input, Tensor running_mean=nil, Tensor running_var=nil, Tensor weight=nil,
      Tensor bias=nil, bool training=false, float momentum=0.1, float eps=1e-05) -> Tensor]],
   doc = [[Normalises each channel (dimension 2) of input over the batch and all other dimensions,
   then scales it by weight and shifts it by bias. With training the input's own mean and variance
   are used, and running_mean and running_var move towards them by the share `momentum`, in place;
   otherwise the running ones are used.]],
   composite = true,
   examples = {"T(4, 3), nil, nil, T(3), T(3), true",
               "T(2, 3, 4), T(3):detach(), P(3):detach(), T(3), T(3)",
               "T(2, 3, 2, 2), nil, nil, nil, nil, true",
               "T(3, 2, 2), T(2):detach(), P(2):detach()"}}
example("batch_norm", [[
   local x = torch.tensor {{1.0}, {3.0}} -- x is (batch, channels)
   local options = {training = true}
   print(torch.nn.functional.batch_norm(x, nil, nil, options):flatten())
   --> tensor([-1.0000,  1.0000])]])
op {[[batch_norm_core(Tensor input, Tensor weight, Tensor bias, Tensor running_mean,
      Tensor running_var, bool training, float momentum, float eps)
      -> (Tensor result, Tensor mean, Tensor rstd)]],
    name = "batch_norm", node = "NativeBatchNorm", internal = true,
    nograd = {mean = true, rstd = true},
    grad = {["input, weight, bias"] = [[batch_norm_backward(grad_result, input, weight, mean, rstd,
    training, eps, needs(input), needs(weight), needs(bias))]]}}
op {[[batch_norm_backward(Tensor grad_output, Tensor input, Tensor weight, Tensor mean, Tensor rstd,
      bool training, float eps, bool want_input, bool want_weight, bool want_bias)
      -> (Tensor input, Tensor weight, Tensor bias)]],
    internal = true, composite = true}
F {[[instance_norm(Tensor input, Tensor running_mean=nil, Tensor running_var=nil, Tensor weight=nil,
      Tensor bias=nil, bool use_input_stats=true, float momentum=0.1, float eps=1e-05) -> Tensor]],
   doc = [[Normalises each channel of each sample over the dimensions after the channels; the
   arguments are those of batch_norm.]],
   composite = true,
   examples = {"T(2, 3, 4), nil, nil, T(3), T(3)", "T(2, 3, 2, 3)",
               "T(2, 3, 4), T(3):detach(), P(3):detach(), nil, nil, false"}}
F {[[group_norm(Tensor input, int num_groups, Tensor weight=nil, Tensor bias=nil, float eps=1e-05)
      -> Tensor]],
   doc = [[Normalises each group of channels (dimension 2) of each sample, then scales and shifts by
   weight and bias of one number per channel.]],
   also = true, composite = true,
   autocast = {gpu = "float32"},
   examples = {"T(2, 4, 3), 2, T(4), T(4)", "T(2, 4), 2", "T(2, 3, 2, 2), 1, T(3)",
               "T(2, 3, 2, 2), 3, nil, T(3)"}}
op {[[group_norm_core(Tensor input, int groups, Tensor weight, Tensor bias, float eps)
      -> (Tensor result, Tensor mean, Tensor rstd)]],
    name = "group_norm", node = "NativeGroupNorm", internal = true,
    nograd = {mean = true, rstd = true},
    grad = {["input, weight, bias"] = [[group_norm_backward(grad_result, input, groups, weight,
    mean, rstd, eps, needs(input), needs(weight), needs(bias))]]}}
op {[[group_norm_backward(Tensor grad_output, Tensor input, int groups, Tensor weight, Tensor mean,
      Tensor rstd, float eps, bool want_input, bool want_weight, bool want_bias)
      -> (Tensor input, Tensor weight, Tensor bias)]],
    internal = true, composite = true}
F {[[local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0)
      -> Tensor]],
   doc = [[Computes input / (k + alpha * m)^beta, where m is the mean of the squares over `size`
   neighbouring channels.]],
   composite = true,
   autocast = {gpu = "float32"}, examples = {"T(2, 5, 3), 3, 0.5", "T(2, 4, 3, 2), 2, 0.5"}}
F {"normalize(Tensor input, Number p=2.0, dim[] dim=1, float eps=1e-12) -> Tensor",
   doc = "Scales input to p-norm 1 along dim: computes input / max(norm(input, p, dim), eps).",
   expr = "input / clamp_min(norm(input, p, dim, true), eps)",
   autocast = {gpu = "float32"},
   examples = {"T(3, 4)", "T(3, 4), 1, 1", "T(2, 3, 4), 3, {2, 3}"}}
example("normalize", [=[
   print(torch.nn.functional.normalize(torch.tensor {{3.0, 4.0}}))
   --> tensor([[0.6000, 0.8000]])]=])
op {"renorm(Tensor self, float p, dim dim, float maxnorm) -> Tensor",
    node = "Renorm",
    doc = "Scales each position along dim whose p-norm is larger than maxnorm down to that norm.",
    composite = true, inplace = true,
    autocast = {gpu = "float32"}, examples = {"T(3, 4), 2, 1, 1", "T(2, 3, 2), 1, 2, 0.5"}}

takes_complex "renorm"
