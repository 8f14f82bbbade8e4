-- modules.lua - FakeQuantize, which rounds like a quantized tensor while a model is trained, and
-- quantize_dynamic with its linear layer of 8-bit weights.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local nn = require "tlua.nn"
local observers = require "tlua.ao.observers"
local Module = require "tlua.nn.modules.Module"

local M = {}

--- Observes the range of tensors, and rounds them to the values that quantized tensors of that
--- range can represent. Gradients pass through elements that were not clamped.
---
---     local fake = torch.ao.quantization.FakeQuantize()
---     print(fake(torch.tensor {-1.0, 2, 3}))
---     --> tensor([-1.0039,  1.9922,  2.9961])
---@class ao.quantization.FakeQuantize: nn.Module
---@field scale Tensor  the distance between neighbouring values in the last call
---@field zero_point Tensor  the integer that stood for 0 in the last call
---@overload fun(options?: {observer: table, dtype: string, qscheme: string, quant_min: integer,
--- quant_max: integer, reduce_range: boolean, averaging_constant: number, ch_axis: integer,
--- eps: number}): ao.quantization.FakeQuantize
local FakeQuantize, parent = class.class("ao.quantization.FakeQuantize", Module)

function FakeQuantize:__init(options)
   parent.__init(self)
   args.check_options("ao.quantization.FakeQuantize", options, "observer", "dtype", "qscheme",
      "quant_min", "quant_max", "reduce_range", "averaging_constant", "ch_axis", "eps")
   local rest = {}
   for key, value in pairs(options or {}) do rest[key] = value end
   local observer = rest.observer or observers.MovingAverageMinMaxObserver
   if not args.is_callable(observer) then
      args.refuse("ao.quantization.FakeQuantize", "observer", "an observer's class", observer)
   end
   rest.observer = nil
   self.activation_post_process = observer(rest)
   self.fake_quant_enabled, self.observer_enabled = true, true
   self:register_buffer("scale", torch.tensor {1.0})
   self:register_buffer("zero_point", torch.tensor({0}, {dtype = "int32"}))
end

--- Sets whether tensors are rounded.
---@param enabled? boolean  true by default
---@return ao.quantization.FakeQuantize
function FakeQuantize:enable_fake_quant(enabled)
   self.fake_quant_enabled = enabled ~= false
   return self
end

--- Sets whether ranges are observed.
---@param enabled? boolean  true by default
---@return ao.quantization.FakeQuantize
function FakeQuantize:enable_observer(enabled)
   self.observer_enabled = enabled ~= false
   return self
end

--- Returns the scale and the zero point for the ranges observed so far.
---@return Tensor
---@return Tensor
function FakeQuantize:calculate_qparams()
   return self.activation_post_process:calculate_qparams()
end

---@param x Tensor  floating
---@return Tensor
function FakeQuantize:forward(x)
   local observer = self.activation_post_process
   if self.observer_enabled then
      observer(x:detach())
      local scale, zero = observer:calculate_qparams()
      self.scale, self.zero_point = scale:to(x.device), zero:to(x.device, "int32")
   end
   if not self.fake_quant_enabled then return x end
   local low, high = observer.quant_min, observer.quant_max
   if observer.ch_axis then
      return torch.fake_quantize_per_channel_affine(x, self.scale, self.zero_point,
         observer.ch_axis, low, high)
   end
   return torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero_point, low, high)
end

M.FakeQuantize = FakeQuantize

-- Returns the scale and the zero point that round activations to 7 bits, so that sums of two
-- products fit in 16 bits on any processor. 0 is represented exactly.
local function seven_bits(x)
   local low, high = x:min():item(), x:max():item()
   if low - low ~= 0 or high - high ~= 0 then
      torch.raise "DynamicQuantizedLinear: x: expected finite numbers, got inf or NaN among them"
   end
   low, high = math.min(low, 0), math.max(high, 0)
   local scale = torch.tensor((high - low) / 127):item()
   if scale == 0 or 1 / scale == math.huge then scale = torch.tensor(0.1):item() end
   local from_low, from_high = -low / scale, 127 - high / scale
   local low_error, high_error = math.abs(low / scale), 127 + math.abs(high / scale)
   local zero = low_error < high_error and from_low or from_high
   local whole = torch.tensor(zero, {dtype = "float64"}):round():clamp(0, 127)
   return scale, math.tointeger(whole:item())
end

--- A Linear with a weight of 8-bit integers. Each call rounds its input to integers and multiplies
--- integers (torch._int_mm). quantize_dynamic makes such layers.
---
---     local layer = torch.nn.Linear(4, 3)
---     local small = torch.ao.quantization.DynamicQuantizedLinear(layer)
---     print(small(torch.ones(2, 4)).shape)
---     --> torch.Size([2, 3])
---@class ao.quantization.DynamicQuantizedLinear: nn.Module
---@field in_features integer  the size of the last dimension of inputs
---@field out_features integer  the size of the last dimension of results
local Linear, linear_parent = class.class("ao.quantization.DynamicQuantizedLinear", Module)

function Linear:__init(layer)
   linear_parent.__init(self)
   if not class.isinstance(layer, nn.Linear) then
      args.refuse("ao.quantization.DynamicQuantizedLinear", "layer", "an nn.Linear", layer)
   end
   self.in_features, self.out_features = layer.in_features, layer.out_features
   local observer = observers.MinMaxObserver {dtype = "qint8", qscheme = "per_tensor_symmetric"}
   local weight = layer.weight:detach():float()
   if weight.is_meta or not weight:isfinite():all():item() then
      torch.raise("ao.quantization.DynamicQuantizedLinear: layer: expected a weight of finite "
         .. "numbers")
   end
   observer(weight)
   local scale = observer:calculate_qparams()
   self:register_buffer("scale", scale:squeeze():clone())
   self:register_buffer("integers", torch.quantize_per_tensor(weight, scale, 0, "qint8"):int_repr())
   if layer.bias then self:register_buffer("bias", layer.bias:detach():float():clone()) end
end

-- This field makes half() and similar methods leave the scale and the bias in their dtypes, as in
-- PyTorch.
Linear._keeps_dtypes = true

-- Returns which tensor is expected if a tensor of a loaded state is wrong, and nil if the tensor is
-- right; see lua/tlua/nn/state.lua.
function Linear:_expects(field, value)
   if field == "integers" then
      return value.dtype ~= "int8" and "an int8 tensor" or nil
   elseif not value:is_floating_point() then
      return "a floating-point tensor"
   elseif field == "scale" and value:numel() == 1 then
      local scale = value:float():item()
      if not (scale > 0 and scale < math.huge) then return "a finite number above 0", scale end
   end
end

--- Returns the weight as a quantized tensor.
---@return ao.QuantizedTensor
function Linear:weight()
   local scale = self.scale:float()
   return torch.quantize_per_tensor(self.integers:float() * scale, scale, 0, "qint8")
end

---@param x Tensor  (*, in_features) float32
---@return Tensor  (*, out_features)
function Linear:forward(x)
   local device <const> = self.integers.device
   if not torch.is_tensor(x) or args.kind_of(x) or x.dtype ~= "float32" or x:dim() == 0
      or x:size(-1) ~= self.in_features or x.device ~= device then
      args.refuse("DynamicQuantizedLinear", "x", ("a float32 tensor on %s with a last size of %d")
         :format(device, self.in_features), x)
   end
   local shape = {table.unpack(x.shape)}
   shape[#shape] = self.out_features
   if x:numel() == 0 then return torch.zeros(shape, {device = x.device}) end
   local flat = x:detach():reshape(-1, self.in_features)
   local scale, zero = seven_bits(flat)
   local q = torch.quantize_per_tensor(flat, scale, zero, "quint8"):int_repr():clamp_max_(127)
   local sum = torch._int_mm(q, self.integers:t())
   local correction = self.integers:sum(2, {dtype = "int32"}) * zero
   local y = (sum - correction):float() * (self.scale:float() * scale)
   if self.bias then y = y + self.bias:float() end
   return y:reshape(shape)
end

function Linear:extra_repr()
   return ("in_features=%d, out_features=%d, dtype=torch.qint8, qscheme=torch.per_tensor_affine")
      :format(self.in_features, self.out_features)
end

M.DynamicQuantizedLinear = Linear

local take_dynamic = args.signature [[quantize_dynamic(model: object, qconfig_spec: names?,
   dtype: string = 'qint8', inplace: boolean = false)]]

--- Returns a copy of a model in which each Linear has a weight of 8-bit integers. The model is for
--- inference: it is in evaluation mode, and the layers have no gradients. Instances of classes
--- derived from Linear are not changed.
---
---     local model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
---     local small = torch.ao.quantization.quantize_dynamic(model)
---     print(small[1]:weight().dtype, small(torch.ones(2, 4)).shape)
---     --> qint8	torch.Size([2, 3])
---@param model nn.Module
---@param qconfig_spec? table  a list of the classes to replace: {nn.Linear}, the only one so far
---@param dtype? string  "qint8", the only one so far
---@param options? {inplace?: boolean}  whether to change the model itself
---@return nn.Module
function M.quantize_dynamic(...)
   local who, a, second = "quantize_dynamic", take_dynamic(...), select(2, ...)
   -- an empty second table is an empty list of classes, not an empty options table
   local model, chosen = a.model, not a.qconfig_spec
   if type(second) == "table" and next(second) == nil then chosen = false end
   if not class.isinstance(model, Module) then args.refuse(who, "model", "an nn.Module", model) end
   if a.dtype ~= "qint8" then args.refuse(who, "dtype", '"qint8"', a.dtype) end
   for key, kind in pairs(a.qconfig_spec or {}) do
      if kind ~= nn.Linear or math.type(key) ~= "integer" then
         args.refuse(who, "qconfig_spec", "a list of nn.Linear", kind)
      end
      chosen = true
   end
   if not a.inplace then model = model:clone() end
   local small = {}
   local function replacement(layer)
      if not small[layer] then
         small[layer] = Linear(layer)
         rawset(small[layer], "_hooks", rawget(layer, "_hooks"))
      end
      return small[layer]
   end
   local found = {}
   for path, module in model:named_modules {remove_duplicate = false} do
      if chosen and getmetatable(module) == nn.Linear then found[#found + 1] = {path, module} end
   end
   for _, pair in ipairs(found) do
      local path, layer = table.unpack(pair)
      if layer == model then return replacement(layer):eval() end
      model:set_submodule(path, replacement(layer))
   end
   return model:eval()
end

return M
