-- static.lua - static quantization: prepare puts observers into a model, and after the model has
-- seen data, convert replaces its layers by layers of 8-bit integers. Results equal those of
-- PyTorch's engine fbgemm: sums of products are exact, and a float32 factor scales them before they
-- are rounded.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local nn = require "tlua.nn"
local functional = require "tlua.ao.functional"
local fuse = require "tlua.ao.fuse"
local observers = require "tlua.ao.observers"
local quantized = require "tlua.ao.quantized"
local Module = require "tlua.nn.modules.Module"

local F = torch.nn.functional

local M = {}

local prefix <const> = "ao.quantization."

--- Chooses the observers of a layer: `activation` makes an observer of the layer's result, `weight`
--- an observer of its weight. Each is a function or a class.
---
---     local Q = torch.ao.quantization
---     local weight = Q.default_qconfig.weight
---     local qconfig = Q.QConfig(Q.MinMaxObserver, weight)
---     print(qconfig.weight().dtype)
---     --> qint8
---@class ao.quantization.QConfig
---@field activation function  makes the observer of a layer's result
---@field weight function  makes the observer of a layer's weight
---@overload fun(activation: function, weight: function): ao.quantization.QConfig
local QConfig = class.class(prefix .. "QConfig")
M.QConfig = QConfig

local take_config = args.signature(prefix .. "QConfig(activation: callable, weight: callable)")

---@param activation function  makes the observer of a layer's result
---@param weight function  makes the observer of a layer's weight
function QConfig:__init(...)
   local a = take_config(...)
   self.activation, self.weight = a.activation, a.weight
end

local take_default = args.signature "get_default_qconfig(backend: string = 'x86')"

local function seven_bits()
   return observers.MinMaxObserver {quant_min = 0, quant_max = 127}
end

--- A QConfig for results of 7 bits and weights with a single scale.
---@names torch.ao.quantization.default_qconfig
M.default_qconfig = QConfig(seven_bits, function()
   return observers.MinMaxObserver {dtype = "qint8", qscheme = "per_tensor_symmetric"}
end)

--- A QConfig for results of 7 bits and weights with one scale for each output channel.
---@names torch.ao.quantization.default_per_channel_qconfig
M.default_per_channel_qconfig = QConfig(seven_bits, function()
   return observers.PerChannelMinMaxObserver {dtype = "qint8", qscheme = "per_channel_symmetric"}
end)

--- Returns the QConfig for an engine. It observes results by histograms. For "x86" and "fbgemm",
--- results have 7 bits, and weights have one scale for each output channel. For "qnnpack", results
--- have 8 bits, and weights have a single scale.
---
---     local Q = torch.ao.quantization
---     print(torch.type(Q.get_default_qconfig("x86").activation()))
---     --> ao.quantization.HistogramObserver
---@param backend? string  "x86" by default
---@return ao.quantization.QConfig
function M.get_default_qconfig(...)
   local backend = take_default(...).backend
   if backend ~= "x86" and backend ~= "fbgemm" and backend ~= "qnnpack" then
      args.refuse("get_default_qconfig", "backend", '"x86", "fbgemm" or "qnnpack"', backend)
   end
   local is_whole = backend == "qnnpack"
   return QConfig(function()
      return require "tlua.ao.histogram".HistogramObserver {reduce_range = not is_whole}
   end, is_whole and M.default_qconfig.weight or M.default_per_channel_qconfig.weight)
end

-- Stubs and their replacements --------------------------------------------------------------------

-- Returns an observer's scale and zero point. If the observer has seen no data, the scale is 0,
-- which is no error because a state with a scale may be loaded later. `place` is the layer's path,
-- for messages.
local function qparams_of(observer, place)
   local low, high = observer.min_val, observer.max_val
   if low and (low:numel() == 0 or low:eq(math.huge):all():item()) then
      return torch.zeros {1}, torch.tensor {0}
   end
   local scale, zero = observer:calculate_qparams()
   if not (scale:gt(0) & scale:isfinite()):all():item() then
      torch.raise(("convert: model: %s: expected finite numbers, got %g to %g"):format(place,
         low:min():item(), high:max():item()))
   end
   return scale, zero
end

-- Returns the scale of a layer's results.
local function scale_of(layer)
   local scale = layer.scale:item()
   if scale == 0 then
      torch.raise(("%s: scale: the prepared model had seen no data when it was converted; call it "
         .. "with typical inputs first, or load a state dict"):format(
         torch.type(layer):match "[^.]+$"))
   end
   return scale
end

-- Defines a class of modules that return their input unchanged.
local function stub(name)
   local cls = class.class(prefix .. name, Module)
   function cls:__init(qconfig)
      Module.__init(self)
      if qconfig ~= nil and not class.isinstance(qconfig, QConfig) then
         args.refuse(prefix .. name, "qconfig", "a QConfig", qconfig)
      end
      self.qconfig = qconfig
   end
   function cls:forward(x) return x end -- luacheck: no unused args
   M[name] = cls
   return cls
end

--- Marks where a model begins to compute with quantized tensors. The module returns its input until
--- convert replaces the module by one that quantizes.
---
---     print(torch.ao.quantization.QuantStub()(torch.ones(1)))
---     --> tensor([1.])
---@class ao.quantization.QuantStub: nn.Module
---@overload fun(qconfig?: ao.quantization.QConfig): ao.quantization.QuantStub
local QuantStub = stub "QuantStub"

--- Marks where a model returns to floating-point tensors. The module returns its input until
--- convert replaces the module by one that dequantizes.
---
---     print(torch.ao.quantization.DeQuantStub()(torch.ones(1)))
---     --> tensor([1.])
---@class ao.quantization.DeQuantStub: nn.Module
---@overload fun(qconfig?: ao.quantization.QConfig): ao.quantization.DeQuantStub
local DeQuantStub = stub "DeQuantStub"

local Quantize = class.class(prefix .. "Quantize", Module)

function Quantize:__init(observer, place)
   Module.__init(self)
   local scale, zero = qparams_of(observer, place)
   self.dtype = observer.dtype
   self:register_buffer("scale", scale:clone())
   self:register_buffer("zero_point", zero:long())
end

function Quantize:forward(x)
   scale_of(self)
   return torch.quantize_per_tensor(x, self.scale, self.zero_point, self.dtype)
end

local DeQuantize = class.class(prefix .. "DeQuantize", Module)

function DeQuantize:forward(x) return torch.dequantize(x) end -- luacheck: no unused args

-- Layers ------------------------------------------------------------------------------------------

-- The base class of layers with weights of 8-bit integers.
local Layer = class.class(prefix .. "QuantizedLayer", Module)

function Layer:__init(layer, qconfig, place)
   Module.__init(self)
   local weight = layer.weight:detach():float()
   local observer = qconfig.weight()
   observer(weight)
   local scale, zero = qparams_of(observer, place .. ".weight")
   if observer.dtype ~= "qint8" or zero:ne(0):any():item() or (observer.ch_axis or 1) ~= 1 then
      torch.raise(prefix .. "convert: qconfig: expected symmetric weights of qint8, with channels "
         .. "in dimension 1 if there are several scales")
   end
   local q = observer.ch_axis
      and torch.quantize_per_channel(weight, scale, zero, observer.ch_axis, "qint8")
      or torch.quantize_per_tensor(weight, scale, zero, "qint8")
   self.is_per_channel = observer.ch_axis ~= nil
   local own = layer.activation_post_process
   local out_scale, out_zero = qparams_of(own, place)
   if own.dtype ~= "quint8" then
      args.refuse(prefix .. "convert", "qconfig.activation", "an observer for quint8", own.dtype)
   end
   self:register_buffer("integers", q:int_repr())
   self:register_buffer("weight_scale", scale:float():clone())
   self:register_buffer("scale", out_scale:float():clone())
   self:register_buffer("zero_point", out_zero:long())
   if layer.bias then self:register_buffer("bias", layer.bias:detach():float():clone()) end
end

-- This field makes half() and similar methods leave the scales and the bias in their dtypes.
Layer._keeps_dtypes = true

-- Returns which tensor is expected if a tensor of a loaded state is wrong, and nil if the tensor is
-- right; see lua/tlua/nn/state.lua.
function Layer:_expects(field, value) -- luacheck: no unused args
   if field == "integers" then
      return value.dtype ~= "int8" and "an int8 tensor" or nil
   elseif field == "zero_point" then
      return value:is_floating_point() and "a tensor of integers" or nil
   elseif not value:is_floating_point() then
      return "a floating-point tensor"
   elseif field ~= "bias" and not (value:gt(0) & value:isfinite()):all():item() then
      return "finite numbers above 0"
   end
end

--- Returns the weight as a quantized tensor.
---@return ao.QuantizedTensor
function Layer:weight()
   return quantized._of_integers(self.integers, "qint8",
      self.is_per_channel and self.weight_scale:double() or self.weight_scale:item(),
      self.is_per_channel and torch.zeros_like(self.weight_scale, {dtype = "int64"}) or 0,
      self.is_per_channel and 1 or nil)
end

-- Makes a layer's quantized result from exact sums of products of integers: scales the sums, adds
-- the bias, and rounds. `axis` is the dimension of the channels.
function Layer:_finish(sum, x, axis)
   local scale = scale_of(self)
   local function along(v)
      local shape = {}
      for d = 1, sum:dim() do shape[d] = d == axis and v:numel() or 1 end
      return v:reshape(shape)
   end
   local factor = along(self.weight_scale) * torch.tensor(x:q_scale(), {dtype = "float32",
      device = sum.device})
   local value = sum:float()
   if self.bias then value = value + along(self.bias) / factor end
   value = value * (factor / self.scale)
   local zero = math.tointeger(self.zero_point:item())
   local integers = value:round():double() + zero
   return quantized._of_integers(integers:clamp(self.has_relu and zero or 0, 255):to "uint8",
      "quint8", scale, zero)
end

local function check(self, x, rank, size, at)
   local is_q = torch.is_tensor(x) and x.is_quantized
   if not is_q or x.dtype ~= "quint8" or x:qscheme() ~= "per_tensor_affine"
      or rank and x:dim() ~= rank or x:dim() == 0 or x:size(at) ~= size then
      args.refuse(torch.type(self):match "[^.]+$", "x", ("a quint8 tensor quantized per tensor, "
         .. "with a size of %d in dimension %d"):format(size, at)
         .. (is_q and "" or ", which a QuantStub before the layer makes"), x)
   end
end

local QuantizedLinear = class.class(prefix .. "QuantizedLinear", Layer)

function QuantizedLinear:__init(layer, qconfig, place)
   Layer.__init(self, layer, qconfig, place)
   self.in_features, self.out_features = layer.in_features, layer.out_features
end

function QuantizedLinear:forward(x)
   check(self, x, nil, self.in_features, -1)
   local q = x:int_repr()
   local shape = {table.unpack(q.shape)}
   shape[#shape] = self.out_features
   local sum = torch._int_mm(q:reshape(-1, self.in_features), self.integers:t())
   sum = sum - self.integers:sum(2, {dtype = "int32"}) * x:q_zero_point()
   return self:_finish(sum:reshape(shape), x, #shape)
end

function QuantizedLinear:extra_repr()
   return ("in_features=%d, out_features=%d, scale=%s, zero_point=%d"):format(self.in_features,
      self.out_features, self.scale:item(), self.zero_point:item())
end

local convolutions <const> = {
   ["nn.Conv1d"] = F.conv1d, ["nn.Conv2d"] = F.conv2d, ["nn.Conv3d"] = F.conv3d,
}
local QuantizedConv = class.class(prefix .. "QuantizedConv", Layer)

function QuantizedConv:__init(layer, qconfig, place)
   Layer.__init(self, layer, qconfig, place)
   if layer.padding_mode ~= "zeros" then
      args.refuse(prefix .. "convert", "padding_mode", '"zeros"', layer.padding_mode)
   end
   self.kind, self.in_channels = torch.type(layer), layer.in_channels
   for _, name in ipairs {"stride", "padding", "dilation", "groups"} do self[name] = layer[name] end
end

-- Convolves in float64, in which sums of these integers are exact. The zero point is subtracted
-- first, so that padding with 0 stands for the number 0.
function QuantizedConv:forward(x)
   check(self, x, self.integers:dim(), self.in_channels, 2)
   local q = x:int_repr():double() - x:q_zero_point()
   local sum = convolutions[self.kind](q, self.integers:double(), nil, self.stride, self.padding,
      self.dilation, self.groups)
   return self:_finish(sum, x, 2)
end

function QuantizedConv:extra_repr()
   return ("%s, scale=%s, zero_point=%d"):format(self.kind, self.scale:item(),
      self.zero_point:item())
end

-- Models ------------------------------------------------------------------------------------------

local replacement
function replacement(module, qconfig, path)
   local kind, place = getmetatable(module), path == "" and torch.type(module) or path
   if kind == fuse.Fused then
      local layer = module.layer
      layer.activation_post_process = module.activation_post_process
      local new = replacement(layer, qconfig, path)
      new.has_relu = true
      return new
   end
   if kind == QuantStub then return Quantize(module.activation_post_process, place) end
   if kind == DeQuantStub then return DeQuantize() end
   if kind == functional.FloatFunctional then
      local new = functional.QFunctional()
      local scale, zero = qparams_of(module.activation_post_process, place)
      new.scale, new.zero_point = scale:double():squeeze(), zero:long():squeeze()
      return new
   end
   if kind == nn.Linear then return QuantizedLinear(module, qconfig, place) end
   return QuantizedConv(module, qconfig, place)
end

-- Returns a list of {path, module, qconfig}, one for each module to quantize. A module without a
-- field `qconfig` uses the `qconfig` of the nearest module around it. The layer out_proj of
-- nn.MultiheadAttention is left out, because its input is not quantized.
local function targets_of(model)
   local configs, found, inner = {}, {}, {}
   for path, module in model:named_modules {remove_duplicate = false} do
      local above = path:match "^(.*)%.[^.]*$" or path ~= "" and "" or nil
      local own = rawget(module, "qconfig")
      if own == nil and above then own = configs[above] end
      configs[path] = own
      local kind = getmetatable(module)
      if kind == nn.MultiheadAttention then inner[module.out_proj] = true end
      if kind == fuse.Fused then inner[module.layer] = true end
      local fits = kind == nn.Linear or convolutions[torch.type(module)] or kind == fuse.Fused
         or kind == QuantStub or kind == DeQuantStub or kind == functional.FloatFunctional
      fits = fits and not inner[module]
      if own and fits then found[#found + 1] = {path, module, own} end
   end
   return found
end

local function check_model(who, model)
   if not class.isinstance(model, Module) then args.refuse(who, "model", "an nn.Module", model) end
end

local take_prepare = args.signature [[prepare(model: object, inplace: boolean = false)]]

--- Returns a copy of a model with observers of the results of QuantStubs, Linear layers,
--- convolutions and FloatFunctionals (torch.ao.nn.quantized). The field `qconfig` of the model, or
--- of modules in it, chooses the observers. Call the copy with typical inputs, and then pass it to
--- convert.
---
---     local Q = torch.ao.quantization
---     local layer = nn.Linear(4, 3)
---     local model = nn.Sequential(Q.QuantStub(), layer, Q.DeQuantStub())
---     model.qconfig = Q.default_qconfig
---     local prepared = Q.prepare(model:eval())
---     prepared(torch.randn(8, 4))
---     print(Q.convert(prepared)(torch.randn(2, 4)).shape)
---     --> torch.Size([2, 3])
---@param model nn.Module
---@param options? {inplace: boolean}  whether to change the model itself
---@return nn.Module
function M.prepare(...)
   local a = take_prepare(...)
   local model = a.model
   check_model("prepare", model)
   if not a.inplace then model = model:clone() end
   local targets = targets_of(model)
   if #targets == 0 then
      torch.raise("prepare: model: expected a field qconfig in the model, or in modules of it that "
         .. "can be quantized: QuantStub, Linear, Conv1d, Conv2d, Conv3d, FloatFunctional")
   end
   for _, target in ipairs(targets) do
      local _, module, qconfig = table.unpack(target)
      if not class.isinstance(qconfig, QConfig) then
         args.refuse("prepare", "qconfig", "a QConfig", qconfig)
      end
      if getmetatable(module) ~= DeQuantStub and not rawget(module, "activation_post_process") then
         module.activation_post_process = qconfig.activation()
         -- A FloatFunctional calls its observer itself, so it needs no hook.
         if getmetatable(module) ~= functional.FloatFunctional then
            module:register_forward_hook(function(own, _, output)
               own.activation_post_process(output)
            end)
         end
      end
   end
   return model
end

local take_convert = args.signature [[convert(model: object, inplace: boolean = false)]]

--- Returns a copy of a prepared model for inference. Its Linear layers and convolutions compute
--- with 8-bit integers, QFunctionals take the place of FloatFunctionals, and tensors between
--- QuantStub and DeQuantStub are quantized.
---@param model nn.Module
---@param options? {inplace: boolean}  whether to change the model itself
---@return nn.Module
function M.convert(...)
   local a = take_convert(...)
   local model = a.model
   check_model("convert", model)
   if not a.inplace then model = model:clone() end
   local targets, done = targets_of(model), false
   for _, module in model:named_modules() do
      done = done or getmetatable(module) == Quantize or getmetatable(module) == QuantizedLinear
         or getmetatable(module) == QuantizedConv
   end
   if #targets == 0 and not done then
      torch.raise("convert: model: expected a model that prepare has returned, got one without "
         .. "observers")
   end
   for _, target in ipairs(targets) do
      local path, module, qconfig = table.unpack(target)
      local observer = module.activation_post_process
      if getmetatable(module) ~= DeQuantStub and observer == nil then
         torch.raise(("convert: model: %s has no observer; call prepare first"):format(path))
      end
      local new = replacement(module, qconfig, path)
      if path == "" then return new:eval() end
      model:set_submodule(path, new)
   end
   return model:eval()
end

return M
