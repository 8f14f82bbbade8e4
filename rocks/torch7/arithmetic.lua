-- arithmetic.lua - Torch7's layers that scale or shift their input by learnt parameters or by
-- constants.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local init = require "tlua.nn.initializers"
local define = require "tlua.nn.modules.layers".define
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local M = {}

--- Mul(): multiplies all elements by one learnt factor.
---
---     local layer = torch.nn.Mul()
---     torch.nn.init.constant_(layer.weight, 3)
---     print(layer(torch.tensor {1.0, 2.0}))
---     --> tensor([3., 6.], grad_fn=<MulBackward0>)
---@class nn.Mul: nn.Module
---@field weight Tensor  (1)
local Mul = class.class("nn.Mul", Module)
M.Mul = Mul

local take_mul = args.signature "nn.Mul(device: device?, dtype: string?)"

function Mul:__init(...)
   Module.__init(self)
   local a = take_mul(...)
   self.weight = Parameter(torch.empty({1}, {device = a.device, dtype = a.dtype}))
   self:reset_parameters()
end

--- Draws the factor from the uniform distribution from -1 to 1.
function Mul:reset_parameters() init.uniform_(self.weight, -1, 1) end

---@param input Tensor
---@return Tensor
function Mul:forward(input) return input * self.weight end

--- Add(input_size): adds a learnt number to each element of a sample. With `scalar`, one learnt
--- number is added to all elements.
---
---     local layer = torch.nn.Add(2)
---     torch.nn.init.constant_(layer.bias, 3)
---     print(layer(torch.tensor {1.0, 2.0}))
---     --> tensor([4., 5.], grad_fn=<AddBackward0>)
---@class nn.Add: nn.Module
---@field bias Tensor  (input_size) or (1)
---@overload fun(input_size: integer, scalar?: boolean): nn.Add
local Add = class.class("nn.Add", Module)
M.Add = Add

local take_add = args.signature [[nn.Add(input_size: count, scalar: boolean = false,
   device: device?, dtype: string?)]]

function Add:__init(...)
   Module.__init(self)
   local a = take_add(...)
   self.scalar = a.scalar
   self.bias = Parameter(torch.empty({a.scalar and 1 or a.input_size},
      {device = a.device, dtype = a.dtype}))
   self:reset_parameters()
end

--- Draws the summands from the uniform distribution from -1/sqrt(n) to 1/sqrt(n).
function Add:reset_parameters()
   local bound = math.max(self.bias:numel(), 1) ^ -0.5
   init.uniform_(self.bias, -bound, bound)
end

---@param input Tensor  (N, *) or (*), with input_size elements for each sample
---@return Tensor
function Add:forward(input)
   if not torch.is_tensor(input) then args.refuse("nn.Add", "input", "a tensor", input) end
   if self.scalar then return input + self.bias end
   local n = self.bias:numel()
   local batch = input:dim() > 1 and input:numel() ~= n
   if input:numel() ~= n * (batch and input:size(1) or 1) then
      args.refuse("nn.Add", "input", ("%d elements for each sample"):format(n), input)
   end
   local shape = input.shape
   if batch then shape[1] = 1 end
   return input + self.bias:view(shape)
end

function Add:extra_repr() return tostring(self.bias:numel()) end

local function check_tensor(name, input)
   if not torch.is_tensor(input) then args.refuse(name, "input", "a tensor", input) end
end

--- Multiplies the input by a number. With `inplace` the input is changed in place.
---
---     print(torch.nn.MulConstant(3)(torch.tensor {1.0, 2.0}))
---     --> tensor([3., 6.])
---@class nn.MulConstant: nn.Module
M.MulConstant = define("MulConstant", "constant_scalar: number, inplace: boolean = false",
   function(self, input)
      check_tensor("nn.MulConstant", input)
      if self.inplace then return input:mul_(self.constant_scalar) end
      return input * self.constant_scalar
   end)

--- Adds a number to the input. With `inplace` the input is changed in place.
---
---     print(torch.nn.AddConstant(3)(torch.tensor {1.0, 2.0}))
---     --> tensor([4., 5.])
---@class nn.AddConstant: nn.Module
M.AddConstant = define("AddConstant", "constant_scalar: number, inplace: boolean = false",
   function(self, input)
      check_tensor("nn.AddConstant", input)
      if self.inplace then return input:add_(self.constant_scalar) end
      return input + self.constant_scalar
   end)

return M
