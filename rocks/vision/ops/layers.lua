-- layers.lua - layers that many models use: convolution with normalisation and activation, channel
-- attention, perceptrons, and regularisation that drops whole samples.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

local M = {}

-- Convolution, normalisation, activation ----------------------------------------------------------

local convolution_parameters <const> = [[(in_channels: count, out_channels: count,
   kernel_size: integers = 3, stride: integers = 1, padding: integers?, groups: count = 1,
   norm_layer: callable|boolean = true, activation_layer: callable|boolean = true,
   dilation: integers = 1, inplace: boolean = true, bias: boolean?)]]

-- Returns the padding with which a convolution of stride 1 and odd kernel size keeps the input's
-- size.
local function same_padding(kernel, dilation)
   if type(kernel) == "number" and type(dilation) == "number" then
      return (kernel - 1) // 2 * dilation
   end
   local list = {}
   for i = 1, type(kernel) == "table" and #kernel or #dilation do
      local k = type(kernel) == "table" and kernel[i] or kernel
      local d = type(dilation) == "table" and dilation[i] or dilation
      list[i] = (k - 1) // 2 * d
   end
   return list
end

-- Returns a list of layers: a convolution, its normalisation and its activation.
local function convolution(a, convolution_layer, norm_layer)
   local norm, activation = a.norm_layer, a.activation_layer
   if norm == true then norm = norm_layer end
   if activation == true then activation = nn.ReLU end
   local bias = a.bias
   if bias == nil then bias = not norm end
   local layers = {convolution_layer(a.in_channels, a.out_channels, a.kernel_size, {
      stride = a.stride, padding = a.padding or same_padding(a.kernel_size, a.dilation),
      dilation = a.dilation, groups = a.groups, bias = bias,
   })}
   if norm then layers[#layers + 1] = norm(a.out_channels) end
   if activation then
      local has_option = a.inplace and activation ~= nn.GELU and activation ~= nn.Sigmoid
      layers[#layers + 1] = has_option and activation {inplace = true} or activation()
   end
   return layers
end

local take_2d = args.signature("vision.ops.Conv2dNormActivation" .. convolution_parameters)
local take_3d = args.signature("vision.ops.Conv3dNormActivation" .. convolution_parameters)

--- A convolution from `in_channels` to `out_channels` in `groups`, a normalisation and an
--- activation, in this order. The default of `padding` keeps the size. `norm_layer` and
--- `activation_layer` are functions that make the normalisation and the activation (BatchNorm2d and
--- ReLU by default), or false for none. `inplace` lets the activation overwrite its input. `bias`
--- is true by default if there is no normalisation.
---
---     local block = torch.vision.ops.Conv2dNormActivation(3, 8, {stride = 2})
---     print(#block, table.unpack(block(torch.zeros(1, 3, 8, 8)).shape))
---     --> 3	1	8	4	4
---@class vision.ops.Conv2dNormActivation: nn.Sequential
---@overload fun(in_channels: integer, out_channels: integer, options?: table): nn.Module
---@field out_channels integer  the number of output channels
local Conv2dNormActivation = class.class("vision.ops.Conv2dNormActivation", nn.Sequential)
M.Conv2dNormActivation = Conv2dNormActivation

function Conv2dNormActivation:__init(...)
   local a = take_2d(...)
   nn.Sequential.__init(self, convolution(a, nn.Conv2d, nn.BatchNorm2d))
   self.out_channels = a.out_channels
end

--- A Conv2dNormActivation for videos and volumes (N, C, D, H, W): a convolution from `in_channels`
--- to `out_channels` in `groups`, a normalisation (BatchNorm3d, or the layer that `norm_layer`
--- makes) and an activation (ReLU, or the layer that `activation_layer` makes).
---
---     local ops = torch.vision.ops
---     local block = ops.Conv3dNormActivation(3, 8, {kernel_size = {1, 3, 3}})
---     print(table.unpack(block(torch.zeros(1, 3, 2, 8, 8)).shape))
---     --> 1	8	2	8	8
---@class vision.ops.Conv3dNormActivation: nn.Sequential
---@overload fun(in_channels: integer, out_channels: integer, options?: table): nn.Module
---@field out_channels integer  the number of output channels
local Conv3dNormActivation = class.class("vision.ops.Conv3dNormActivation", nn.Sequential)
M.Conv3dNormActivation = Conv3dNormActivation

function Conv3dNormActivation:__init(...)
   local a = take_3d(...)
   nn.Sequential.__init(self, convolution(a, nn.Conv3d, nn.BatchNorm3d))
   self.out_channels = a.out_channels
end

-- Channel attention -------------------------------------------------------------------------------

local take_squeeze = args.signature [[vision.ops.SqueezeExcitation(input_channels: count,
   squeeze_channels: count, activation: callable?, scale_activation: callable?)]]

--- Scales each of `input_channels` channels by a factor. Two layers with `squeeze_channels`
--- channels between them compute the factors from the means of all channels. `activation` makes the
--- layer after the first of them (ReLU by default), and `scale_activation` the layer after the
--- second (Sigmoid by default).
---
---     local scale = torch.vision.ops.SqueezeExcitation(8, 2)
---     print(table.unpack(scale(torch.ones(1, 8, 4, 4)).shape))
---     --> 1	8	4	4
---@class vision.ops.SqueezeExcitation: nn.Module
---@field avgpool nn.Module  computes the means
---@field fc1 nn.Conv2d  maps the means to `squeeze_channels` channels
---@field fc2 nn.Conv2d  maps `squeeze_channels` channels to the factors
---@field activation nn.Module  follows fc1
---@field scale_activation nn.Module  follows fc2
---@overload fun(input_channels: integer, squeeze_channels: integer, options?: table): nn.Module
local SqueezeExcitation = class.class("vision.ops.SqueezeExcitation", nn.Module)
M.SqueezeExcitation = SqueezeExcitation

function SqueezeExcitation:__init(...)
   local a = take_squeeze(...)
   self.avgpool = nn.AdaptiveAvgPool2d(1)
   self.fc1 = nn.Conv2d(a.input_channels, a.squeeze_channels, 1)
   self.fc2 = nn.Conv2d(a.squeeze_channels, a.input_channels, 1)
   self.activation = (a.activation or nn.ReLU)()
   self.scale_activation = (a.scale_activation or nn.Sigmoid)()
end

function SqueezeExcitation:forward(input)
   local scale = self.activation(self.fc1(self.avgpool(input)))
   return input * self.scale_activation(self.fc2(scale))
end

-- Perceptrons and permutations --------------------------------------------------------------------

local take_mlp = args.signature [[vision.ops.MLP(in_channels: count, hidden_channels: integers,
   norm_layer: callable?, activation_layer: callable?, inplace: boolean?, bias: boolean = true,
   dropout: number = 0)]]

--- Linear layers from `in_channels` to each number in `hidden_channels`, with activations between
--- them (`activation_layer`, ReLU by default) and dropout after each. `norm_layer` makes a
--- normalisation after each hidden layer; `inplace` is passed on to activations and dropouts.
---
---     local mlp = torch.vision.ops.MLP(4, {8, 2})
---     print(#mlp, table.unpack(mlp(torch.zeros(3, 4)).shape))
---     --> 5	3	2
---@class vision.ops.MLP: nn.Sequential
---@overload fun(in_channels: integer, hidden_channels: integer[], options?: table): nn.Module
local MLP = class.class("vision.ops.MLP", nn.Sequential)
M.MLP = MLP

function MLP:__init(...)
   local a = take_mlp(...)
   local sizes = type(a.hidden_channels) == "table" and a.hidden_channels or {a.hidden_channels}
   if #sizes == 0 then
      args.refuse("vision.ops.MLP", "hidden_channels", "at least one size", sizes)
   end
   local layers, before = {}, a.in_channels
   local options = a.inplace ~= nil and {inplace = a.inplace} or nil
   for i, size in ipairs(sizes) do
      layers[#layers + 1] = nn.Linear(before, size, {bias = a.bias})
      if i < #sizes then
         if a.norm_layer then layers[#layers + 1] = a.norm_layer(size) end
         layers[#layers + 1] = (a.activation_layer or nn.ReLU)(options)
      end
      layers[#layers + 1] = nn.Dropout(a.dropout, options)
      before = size
   end
   nn.Sequential.__init(self, layers)
end

local take_permute = args.signature "vision.ops.Permute(dims: integers)"

--- Reorders the dimensions of its input as `x:permute(dims)` does.
---
---     local channels_last = torch.vision.ops.Permute {1, 3, 4, 2}
---     print(table.unpack(channels_last(torch.zeros(1, 3, 4, 5)).shape))
---     --> 1	4	5	3
---@class vision.ops.Permute: nn.Module
---@field dims integer[]  the input's dimensions in their new order
---@overload fun(dims: integer[]): vision.ops.Permute
local Permute = class.class("vision.ops.Permute", nn.Module)
M.Permute = Permute

function Permute:__init(...)
   self.dims = take_permute(...).dims
end

function Permute:forward(input)
   if not torch.is_tensor(input) then
      args.refuse("vision.ops.Permute", "input", "a tensor", input)
   end
   return input:permute(self.dims)
end

-- Frozen normalisation ----------------------------------------------------------------------------

local take_frozen = args.signature [[vision.ops.FrozenBatchNorm2d(num_features: count,
   eps: number = 1e-5)]]

--- Batch normalisation of `num_features` channels whose statistics, scale and shift never change;
--- all four are buffers. It can load a state dict of BatchNorm2d, whose num_batches_tracked is
--- ignored.
---
---     local norm = torch.vision.ops.FrozenBatchNorm2d(3)
---     print(#norm:parameters(), table.unpack(norm(torch.zeros(1, 3, 2, 2)).shape))
---     --> 0	1	3	2	2
---@class vision.ops.FrozenBatchNorm2d: nn.Module
---@field eps number  a number that is added to the variance
---@field weight Tensor  (num_features) the scale, a buffer
---@field bias Tensor  (num_features) the shift, a buffer
---@field running_mean Tensor  (num_features)
---@field running_var Tensor  (num_features)
---@overload fun(num_features: integer, options?: table): nn.Module
local FrozenBatchNorm2d = class.class("vision.ops.FrozenBatchNorm2d", nn.Module)
M.FrozenBatchNorm2d = FrozenBatchNorm2d

function FrozenBatchNorm2d:__init(...)
   local a = take_frozen(...)
   self.eps = a.eps
   self:register_buffer("weight", torch.ones(a.num_features))
   self:register_buffer("bias", torch.zeros(a.num_features))
   self:register_buffer("running_mean", torch.zeros(a.num_features))
   self:register_buffer("running_var", torch.ones(a.num_features))
   self:register_load_state_dict_pre_hook(function(_, state, prefix)
      state[prefix .. "num_batches_tracked"] = nil
   end)
end

function FrozenBatchNorm2d:forward(input)
   local scale = self.weight * (self.running_var + self.eps):rsqrt()
   local shift = self.bias - self.running_mean * scale
   return input * scale:view(1, -1, 1, 1) + shift:view(1, -1, 1, 1)
end

-- Dropping samples and regions --------------------------------------------------------------------

local take_depth = args.signature [[vision.ops.stochastic_depth(input: tensor, p: number,
   mode: string, training: boolean = true)]]

local function check_rate(title, p)
   if not (p >= 0 and p <= 1) then args.refuse(title, "p", "a number from 0 to 1", p) end
end

local function check_depth(title, a)
   check_rate(title, a.p)
   if a.mode ~= "batch" and a.mode ~= "row" then
      args.refuse(title, "mode", '"batch" or "row"', a.mode)
   end
end

-- Sets single samples of the input (mode "row") or the whole batch (mode "batch") to zero with
-- probability p, and divides the other samples by 1 - p.
local function drop_samples(input, p, mode)
   local size = {}
   for i = 1, input:dim() do size[i] = i == 1 and mode == "row" and input:size(1) or 1 end
   local noise = input:new_empty(size):bernoulli_(1 - p)
   if p < 1 then noise:div_(1 - p) end
   return input * noise
end

--- Sets the whole input (mode "batch") or single samples of it (mode "row") to zero with
--- probability p, and divides everything else by 1 - p. If `training` is false, returns the input.
---
---     local x = torch.ones(2, 3)
---     print(torch.vision.ops.stochastic_depth(x, 0.5, "row", false) == x)
---     --> true
---@param input Tensor  (N, ...)
---@param p number  the probability of zero
---@param mode string  "batch" or "row"
---@param training? boolean  true by default
---@return Tensor
function M.stochastic_depth(...)
   local a = take_depth(...)
   check_depth("vision.ops.stochastic_depth", a)
   if not a.training or a.p == 0 then return a.input end
   return drop_samples(a.input, a.p, a.mode)
end

local take_layer = args.signature "vision.ops.StochasticDepth(p: number, mode: string)"

--- The layer that calls stochastic_depth with probability p. It drops only in training mode.
---
---     local drop = torch.vision.ops.StochasticDepth(1.0, "row")
---     print(drop(torch.ones(1, 2)))
---     --> tensor([[0., 0.]])
---@class vision.ops.StochasticDepth: nn.Module
---@field p number  the probability of zero
---@field mode string  "batch" or "row"
---@overload fun(p: number, mode: string): vision.ops.StochasticDepth
local StochasticDepth = class.class("vision.ops.StochasticDepth", nn.Module)
M.StochasticDepth = StochasticDepth

function StochasticDepth:__init(...)
   local a = take_layer(...)
   check_depth("vision.ops.StochasticDepth", a)
   self.p, self.mode = a.p, a.mode
end

function StochasticDepth:forward(input)
   if not torch.is_tensor(input) then
      args.refuse("vision.ops.StochasticDepth", "input", "a tensor", input)
   end
   if not self.training or self.p == 0 then return input end
   return drop_samples(input, self.p, self.mode)
end

function StochasticDepth:extra_repr()
   return ("p=%g, mode=%s"):format(self.p, self.mode)
end

return M
