-- initializers.lua - torch.nn.init: functions that fill parameters with initial values. The
-- functions whose names end in _ work in place, record no gradient and return their tensor. Their
-- rules are those of PyTorch.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Runs fn(tensor, arguments) without recording gradients, and returns the tensor.
local function fill(arguments, fn)
   local _ <close> = torch.no_grad()
   fn(arguments.tensor, arguments)
   return arguments.tensor
end

--- Returns the fan-in and the fan-out of a weight (out, in, *kernel): the sizes `in` and `out`,
--- each multiplied by the number of elements of the kernel.
---@param tensor Tensor
---@return integer fan_in
---@return integer fan_out
function M.calculate_fan(tensor)
   if not torch.is_tensor(tensor) or tensor:dim() < 2 then
      args.refuse("nn.init", "tensor", "a tensor of at least 2 dimensions", tensor)
   end
   local field = 1
   for i = 3, tensor:dim() do field = field * tensor:size(i) end
   return tensor:size(2) * field, tensor:size(1) * field
end

local fixed_gains = {
   linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, conv_transpose1d = 1, conv_transpose2d = 1,
   conv_transpose3d = 1, sigmoid = 1, tanh = 5 / 3, relu = 2 ^ 0.5, selu = 3 / 4,
}

local take_gain = args.signature
   "nn.init.calculate_gain(nonlinearity: string, param: number?)"

--- Returns the gain of a nonlinearity: the factor by which the weights of the layer before it are
--- scaled, so that activations keep their size from layer to layer.
---@param nonlinearity string
---@param param? number  leaky_relu's slope, 0.01 by default
---@return number
function M.calculate_gain(...)
   local a = take_gain(...)
   local nonlinearity, param = a.nonlinearity, a.param
   if nonlinearity == "leaky_relu" then return (2 / (1 + (param or 0.01) ^ 2)) ^ 0.5 end
   local gain = fixed_gains[nonlinearity]
   if not gain then
      args.refuse("nn.init.calculate_gain", "nonlinearity",
         "linear, conv1d ... conv_transpose3d, sigmoid, tanh, relu, leaky_relu or selu",
         nonlinearity)
   end
   return gain
end

local take_uniform = args.signature
   "nn.init.uniform_(tensor: tensor, a: number = 0, b: number = 1)"

--- Fills a tensor with uniform values from a to b.
---@param tensor Tensor
---@param options? {a: number, b: number}
---@return Tensor tensor
function M.uniform_(...)
   return fill(take_uniform(...), function(tensor, o) tensor:uniform_(o.a, o.b) end)
end

local take_normal = args.signature
   "nn.init.normal_(tensor: tensor, mean: number = 0, std: number = 1)"

--- Fills a tensor with normally distributed values.
---@param tensor Tensor
---@param options? {mean: number, std: number}
---@return Tensor tensor
function M.normal_(...)
   return fill(take_normal(...), function(tensor, o) tensor:normal_(o.mean, o.std) end)
end

-- Returns the cumulative distribution function of the standard normal distribution at x.
local function normal_cdf(x)
   local place = torch.tensor(x / 2 ^ 0.5, {dtype = "float64", device = "cpu"})
   return (1 + torch.erf(place):item()) / 2
end

local take_trunc_normal = args.signature [[nn.init.trunc_normal_(tensor: tensor,
   mean: number = 0, std: number = 1, a: number = -2, b: number = 2)]]

--- Fills a tensor with values of a normal distribution that is truncated to the interval from a to
--- b. The values are drawn by the inverse of the distribution function.
---@param tensor Tensor
---@param options? {mean: number, std: number, a: number, b: number}
---@return Tensor tensor
function M.trunc_normal_(...)
   return fill(take_trunc_normal(...), function(tensor, o)
      local low, high = normal_cdf((o.a - o.mean) / o.std), normal_cdf((o.b - o.mean) / o.std)
      tensor:uniform_(2 * low - 1, 2 * high - 1)
      tensor:erfinv_():mul_(o.std * 2 ^ 0.5):add_(o.mean):clamp_(o.a, o.b)
   end)
end

local take_constant = args.signature "nn.init.constant_(tensor: tensor, val: any)"

--- Fills a tensor with one number.
---@param tensor Tensor
---@param val number  or, for complex tensors, a complex number
---@return Tensor tensor
function M.constant_(...)
   return fill(take_constant(...), function(tensor, o)
      if type(o.val) ~= "number" and getmetatable(o.val) ~= "torch.complex" then
         args.refuse("nn.init.constant_", "val", "a number", o.val)
      end
      tensor:fill_(o.val)
   end)
end

local take_ones = args.signature "nn.init.ones_(tensor: tensor)"

--- Fills a tensor with ones.
---@param tensor Tensor
---@return Tensor tensor
function M.ones_(...)
   return fill(take_ones(...), function(tensor) tensor:fill_(1) end)
end

local take_zeros = args.signature "nn.init.zeros_(tensor: tensor)"

--- Fills a tensor with zeros.
---@param tensor Tensor
---@return Tensor tensor
function M.zeros_(...)
   return fill(take_zeros(...), function(tensor) tensor:zero_() end)
end

local take_eye = args.signature "nn.init.eye_(tensor: tensor)"

--- Fills a matrix with ones on its diagonal and zeros elsewhere.
---@param tensor Tensor  (n, m)
---@return Tensor tensor
function M.eye_(...)
   return fill(take_eye(...), function(tensor)
      if tensor:dim() ~= 2 then
         args.refuse("nn.init.eye_", "tensor", "a tensor of 2 dimensions", tensor)
      end
      tensor:copy_(torch.eye(tensor:size(1), tensor:size(2), {device = tensor.device}))
   end)
end

local take_dirac = args.signature "nn.init.dirac_(tensor: tensor, groups: count = 1)"

--- Fills a convolution's weight so that output channel i of each group is a copy of the group's
--- input channel i, if both channels exist.
---@param tensor Tensor  (out, in, *kernel)
---@param options? {groups: integer}
---@return Tensor tensor
function M.dirac_(...)
   return fill(take_dirac(...), function(tensor, o)
      local n = tensor:dim()
      if n < 3 or n > 5 or o.groups < 1 or tensor:size(1) % o.groups ~= 0 then
         args.refuse("nn.init.dirac_", "tensor",
            "a tensor of 3 to 5 dimensions with a multiple of groups in the first", tensor)
      end
      tensor:zero_()
      local per_group = tensor:size(1) // o.groups
      local middle = {}
      for i = 3, n do middle[#middle + 1] = tensor:size(i) // 2 + 1 end
      for group = 0, o.groups - 1 do
         for i = 1, math.min(per_group, tensor:size(2)) do
            tensor[{group * per_group + i, i, table.unpack(middle)}] = 1
         end
      end
   end)
end

local take_xavier_uniform = args.signature
   "nn.init.xavier_uniform_(tensor: tensor, gain: number = 1)"

--- Fills a weight with uniform values that keep the variance of activations and of gradients from
--- layer to layer (Glorot and Bengio, 2010).
---@param tensor Tensor  (out, in, *)
---@param options? {gain: number}
---@return Tensor tensor
function M.xavier_uniform_(...)
   return fill(take_xavier_uniform(...), function(tensor, o)
      local fan_in, fan_out = M.calculate_fan(tensor)
      local bound = o.gain * (6 / (fan_in + fan_out)) ^ 0.5
      tensor:uniform_(-bound, bound)
   end)
end

local take_xavier_normal = args.signature
   "nn.init.xavier_normal_(tensor: tensor, gain: number = 1)"

--- Fills a tensor with normally distributed values that have the same variance as those of
--- xavier_uniform_.
---@param tensor Tensor  (out, in, *)
---@param options? {gain: number}
---@return Tensor tensor
function M.xavier_normal_(...)
   return fill(take_xavier_normal(...), function(tensor, o)
      local fan_in, fan_out = M.calculate_fan(tensor)
      tensor:normal_(0, o.gain * (2 / (fan_in + fan_out)) ^ 0.5)
   end)
end

-- Returns the standard deviation that Kaiming's rule gives for a weight.
local function kaiming_std(name, tensor, o)
   local fan_in, fan_out = M.calculate_fan(tensor)
   if o.mode ~= "fan_in" and o.mode ~= "fan_out" then
      args.refuse("nn.init." .. name, "mode", "fan_in or fan_out", o.mode)
   end
   local fan = o.mode == "fan_in" and fan_in or fan_out
   return M.calculate_gain(o.nonlinearity, o.a) / fan ^ 0.5
end

local take_kaiming_uniform = args.signature [[nn.init.kaiming_uniform_(tensor: tensor,
   a: number = 0, mode: string = 'fan_in', nonlinearity: string = 'leaky_relu')]]

--- Fills a weight with uniform values for a layer before a rectifier (He et al., 2015). `a` is the
--- slope of leaky_relu.
---@param tensor Tensor  (out, in, *)
---@param options? {a: number, mode: "fan_in"|"fan_out", nonlinearity: string}
---@return Tensor tensor
function M.kaiming_uniform_(...)
   return fill(take_kaiming_uniform(...), function(tensor, o)
      if tensor:numel() == 0 then return end
      local bound = 3 ^ 0.5 * kaiming_std("kaiming_uniform_", tensor, o)
      tensor:uniform_(-bound, bound)
   end)
end

local take_kaiming_normal = args.signature [[nn.init.kaiming_normal_(tensor: tensor,
   a: number = 0, mode: string = 'fan_in', nonlinearity: string = 'leaky_relu')]]

--- Fills a tensor with normally distributed values that have the same variance as those of
--- kaiming_uniform_.
---@param tensor Tensor  (out, in, *)
---@param options? {a: number, mode: "fan_in"|"fan_out", nonlinearity: string}
---@return Tensor tensor
function M.kaiming_normal_(...)
   return fill(take_kaiming_normal(...), function(tensor, o)
      if tensor:numel() == 0 then return end
      tensor:normal_(0, kaiming_std("kaiming_normal_", tensor, o))
   end)
end

local take_orthogonal = args.signature
   "nn.init.orthogonal_(tensor: tensor, gain: number = 1)"

--- Fills a matrix with orthogonal rows, or with orthogonal columns if it has more rows than
--- columns. The result is gain * Q, where Q * R is the QR decomposition of a random normal matrix
--- in which R has a positive diagonal. Dimensions after the first are flattened to one.
---@param tensor Tensor  (n, *)
---@param options? {gain: number}
---@return Tensor tensor
function M.orthogonal_(...)
   return fill(take_orthogonal(...), function(tensor, o)
      if tensor:dim() < 2 then
         args.refuse("nn.init.orthogonal_", "tensor", "a tensor of at least 2 dimensions", tensor)
      end
      local rows = tensor:size(1)
      local columns = tensor:numel() // math.max(rows, 1)
      local dtype = tensor:is_complex() and tensor.dtype or nil
      local flat = torch.randn(rows, columns, {dtype = dtype, device = tensor.device})
      if rows < columns then flat = flat:t() end
      local q, r = torch.linalg.qr(flat:contiguous())
      q = q * torch.sgn(torch.diagonal(r))
      if rows < columns then q = q:t() end
      tensor:copy_(q:reshape(tensor.shape)):mul_(o.gain)
   end)
end

local take_sparse = args.signature
   "nn.init.sparse_(tensor: tensor, sparsity: number, std: number = 0.01)"

--- Fills a matrix with normally distributed values, and zeroes a share of each column at random.
---@param tensor Tensor  (n, m)
---@param sparsity number  the share, from 0 to 1
---@param options? {std: number}
---@return Tensor tensor
function M.sparse_(...)
   return fill(take_sparse(...), function(tensor, o)
      if tensor:dim() ~= 2 then
         args.refuse("nn.init.sparse_", "tensor", "a tensor of 2 dimensions", tensor)
      end
      local rows = tensor:size(1)
      if not (o.sparsity >= 0 and o.sparsity <= 1) then
         args.refuse("nn.init.sparse_", "sparsity", "a number from 0 to 1", o.sparsity)
      end
      local zeros = math.ceil(o.sparsity * rows)
      tensor:normal_(0, o.std)
      if zeros == 0 then return end
      for column = 1, tensor:size(2) do
         local places = torch.randperm(rows, {device = tensor.device}):narrow(1, 1, zeros)
         tensor:select(2, column):index_fill_(1, places, 0)
      end
   end)
end

-- The deprecated names without an underscore that early versions of PyTorch had.
for name in ([[uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform
   kaiming_normal orthogonal sparse]]):gmatch "[%w_]+" do
   M[name] = M[name .. "_"]
end

return M
