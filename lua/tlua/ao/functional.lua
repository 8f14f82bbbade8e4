-- functional.lua - torch.ao.nn.quantized: modules for sums, products and concatenations in models
-- that are to be quantized. A FloatFunctional has an observer, which records the range of its
-- results. `convert` replaces the FloatFunctional by a QFunctional, and computes the scale and the
-- zero point of the QFunctional from that range.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local operators = require "tlua.ao.operators"
local Module = require "tlua.nn.modules.Module"

local M = {}

local function refuse_call(self)
   local name = torch.type(self):match "[^.]+$"
   torch.raise(("%s: the module is not called itself: use one of its methods, such as f:add(x, y)")
      :format(name))
end

--- Computes with floating-point tensors in a model that is to be quantized: prepare lets the module
--- observe its results, and convert replaces the module by a QFunctional. A model needs a separate
--- module for each sum, such as the sum of a skip connection.
---
---     local f = torch.ao.nn.quantized.FloatFunctional()
---     print(f:add_relu(torch.tensor {1.0, -3}, torch.tensor {1.0, 2}))
---     --> tensor([2., 0.])
---@class ao.nn.quantized.FloatFunctional: nn.Module
---@overload fun(): ao.nn.quantized.FloatFunctional
local Float = class.class("ao.nn.quantized.FloatFunctional", Module)
M.FloatFunctional = Float

-- Passes a result to the observer, which `prepare` has added to the model, if there is one. Returns
-- the result.
local function observed(self, result)
   local observer = rawget(self, "activation_post_process")
   if observer then observer(result) end
   return result
end

Float.forward = refuse_call

--- Returns x + y.
---@param x Tensor
---@param y Tensor
---@return Tensor
function Float:add(x, y) return observed(self, torch.add(x, y)) end

--- Returns x + y for a number y. The result is not observed: the number determines its range.
---@param x Tensor
---@param y number
---@return Tensor
function Float:add_scalar(x, y) return torch.add(x, y) end -- luacheck: no unused args

--- Returns x * y.
---@param x Tensor
---@param y Tensor
---@return Tensor
function Float:mul(x, y) return observed(self, torch.mul(x, y)) end

--- Returns x * y for a number y. The result is not observed: the number determines its range.
---@param x Tensor
---@param y number
---@return Tensor
function Float:mul_scalar(x, y) return torch.mul(x, y) end -- luacheck: no unused args

--- Concatenates tensors along a dimension.
---@param x Tensor[]  of the same sizes in all other dimensions
---@param dim? integer  1 by default
---@return Tensor
function Float:cat(x, dim) return observed(self, torch.cat(x, dim or 1)) end

--- Returns relu(x + y).
---@param x Tensor
---@param y Tensor
---@return Tensor
function Float:add_relu(x, y) return observed(self, torch.add(x, y):relu()) end

--- Returns the product of two matrices, or of batches of them.
---@param x Tensor  (..., n, k)
---@param y Tensor  (..., k, m)
---@return Tensor
function Float:matmul(x, y) return observed(self, torch.matmul(x, y)) end

--- Computes with quantized tensors. convert replaces each FloatFunctional by a QFunctional. The
--- results of add, mul, cat, add_relu and matmul have the scale and the zero point that are in the
--- module's fields.
---
---     local f = torch.ao.nn.quantized.QFunctional()
---     f.scale, f.zero_point = 0.25, 3
---     local x = torch.tensor {1.0, 2}
---     local q = torch.quantize_per_tensor(x, 0.5, 10, "quint8")
---     print(f:add(q, q):int_repr())
---     --> tensor([11, 19], dtype=torch.uint8)
---@class ao.nn.quantized.QFunctional: nn.Module
---@field scale number|Tensor  the scale of results, 1 at first
---@field zero_point integer|Tensor  the zero point of results, 0 at first
---@overload fun(): ao.nn.quantized.QFunctional
local Quantized = class.class("ao.nn.quantized.QFunctional", Module)
M.QFunctional = Quantized

-- This field makes half() and similar methods leave the scale in its dtype.
Quantized._keeps_dtypes = true

-- Converts a scale and a zero point that were assigned as numbers to tensors, because a state
-- contains only tensors.
local function settle(self)
   for name, dtype in pairs {scale = "float64", zero_point = "int64"} do
      local value = rawget(self, name)
      if not torch.is_tensor(value) then
         local number = args.to_number("QFunctional", name, value)
         self:register_buffer(name, torch.tensor(number, {dtype = "float64"}):to(dtype))
      end
   end
end

function Quantized:__init()
   Module.__init(self)
   self.scale, self.zero_point = 1.0, 0
   settle(self)
   self:register_state_dict_pre_hook(settle)
   self:register_load_state_dict_pre_hook(settle)
end

-- Returns which tensor is expected if a tensor of a loaded state is wrong, and nil if the tensor is
-- right; see lua/tlua/nn/state.lua.
function Quantized:_expects(field, value) -- luacheck: no unused args
   if field == "zero_point" then
      return value:is_floating_point() and "a tensor of integers" or nil
   elseif not value:is_floating_point() then
      return "a floating-point tensor"
   elseif not (value:ge(0) & value:isfinite()):all():item() then
      return "a finite number of at least 0"
   end
end

Quantized.forward = refuse_call

-- Returns the scale and the zero point that the module gives to its results.
local function result_of(self)
   local scale = args.to_number("QFunctional", "scale", self.scale)
   if scale == 0 then
      torch.raise("QFunctional: scale: the prepared model had seen no data when it was converted; "
         .. "call it with typical inputs first, or load a state dict")
   end
   return scale, self.zero_point
end

-- Raises an error for a tensor that is not quantized. The message says that the model lacks a
-- QuantStub before the module.
local function check(method, name, x)
   if torch.is_tensor(x) and x.is_quantized then return end
   args.refuse("QFunctional:" .. method, name,
      "a quantized tensor, which a QuantStub before the layer makes", x)
end

-- Calls the operator torch.ops.quantized[method] with two quantized tensors and the module's scale
-- and zero point. Returns the result.
local function apply(self, method, x, y)
   check(method, "x", x)
   check(method, "y", y)
   return operators[method](x, y, result_of(self))
end

--- Returns x + y.
---@param x ao.QuantizedTensor
---@param y ao.QuantizedTensor
---@return ao.QuantizedTensor
function Quantized:add(x, y) return apply(self, "add", x, y) end

--- Returns x + y for a number y, which determines the scale and the zero point of the result.
---@param x ao.QuantizedTensor
---@param y number
---@return ao.QuantizedTensor
function Quantized:add_scalar(x, y) -- luacheck: no unused args
   check("add_scalar", "x", x)
   return operators.add_scalar(x, y)
end

--- Returns x * y.
---@param x ao.QuantizedTensor
---@param y ao.QuantizedTensor
---@return ao.QuantizedTensor
function Quantized:mul(x, y) return apply(self, "mul", x, y) end

--- Returns x * y for a number y, which determines the scale and the zero point of the result.
---@param x ao.QuantizedTensor
---@param y number
---@return ao.QuantizedTensor
function Quantized:mul_scalar(x, y) -- luacheck: no unused args
   check("mul_scalar", "x", x)
   return operators.mul_scalar(x, y)
end

--- Concatenates quantized tensors along a dimension.
---@param x ao.QuantizedTensor[]  of the same sizes in all other dimensions
---@param dim? integer  1 by default
---@return ao.QuantizedTensor
function Quantized:cat(x, dim)
   if type(x) ~= "table" then args.refuse("QFunctional:cat", "x", "a list of tensors", x) end
   for i, part in ipairs(x) do check("cat", ("x[%d]"):format(i), part) end
   return operators.cat(x, dim or 1, result_of(self))
end

--- Returns relu(x + y).
---@param x ao.QuantizedTensor
---@param y ao.QuantizedTensor
---@return ao.QuantizedTensor
function Quantized:add_relu(x, y) return apply(self, "add_relu", x, y) end

--- Returns the product of two matrices, or of batches of them.
---@param x ao.QuantizedTensor  (..., n, k)
---@param y ao.QuantizedTensor  (..., k, m)
---@return ao.QuantizedTensor
function Quantized:matmul(x, y) return apply(self, "matmul", x, y) end

function Quantized:extra_repr()
   return ("scale=%s, zero_point=%d"):format(
      args.to_number("QFunctional", "scale", self.scale),
      args.to_number("QFunctional", "zero_point", self.zero_point) // 1 | 0)
end

--- Computes with floating-point tensors as FloatFunctional does, but has no observer.
---
---     local f = torch.ao.nn.quantized.FXFloatFunctional()
---     print(f:mul(torch.tensor {1.0, -3}, torch.tensor {1.0, 2}))
---     --> tensor([ 1., -6.])
---@class ao.nn.quantized.FXFloatFunctional: nn.Module
---@overload fun(): ao.nn.quantized.FXFloatFunctional
M.FXFloatFunctional = class.class("ao.nn.quantized.FXFloatFunctional", Module)
for name in ("forward add add_scalar mul mul_scalar cat add_relu matmul"):gmatch "%S+" do
   M.FXFloatFunctional[name] = Float[name]
end

return M
