-- tensor_types.lua - PyTorch's legacy constructors: torch.Tensor(2, 3), torch.FloatTensor {1, 2},
-- torch.cuda.LongTensor(4). Numbers or a torch.Size give the sizes of an uninitialized tensor; any
-- other table is data. torch.isinstance(x, torch.FloatTensor) tells whether x is such a tensor.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local dtypes <const> = {
   FloatTensor = "float32", DoubleTensor = "float64", HalfTensor = "float16",
   BFloat16Tensor = "bfloat16", CharTensor = "int8", ByteTensor = "uint8", ShortTensor = "int16",
   IntTensor = "int32", LongTensor = "int64", BoolTensor = "bool",
}

-- Returns a view of x, since PyTorch's constructors return a tensor that shares the elements of a
-- tensor argument. Raises an error if x has another dtype or kind of device.
local function alias(name, x, dtype, kind)
   local fits = (not dtype or x.dtype == dtype) and (not kind or x.device.type == kind)
   if not fits then
      local place = kind and " on " .. kind or ""
      args.refuse(name, "data", ("a tensor of %s%s"):format(dtype, place), x)
   end
   return x:view_as(x)
end

-- Calls `operator`, which is torch.tensor or torch.empty. In an error, the constructor's name
-- replaces the operator's.
local function make(name, operator, data, options)
   local ok, result = pcall(torch[operator], data, options)
   if ok then return result end
   local why = tostring(result):gsub("^[^\n]-:%d+: ", ""):gsub("^" .. operator .. ": ", "")
   torch.raise(name .. ": " .. why)
end

-- Constructs a tensor. A `dtype` of nil means the default dtype, and a `kind` of nil means any
-- device.
local function construct(name, dtype, kind, ...)
   local first, n = (...), select("#", ...)
   local options = {dtype = dtype or torch.get_default_dtype(), device = kind}
   if n == 0 then return make(name, "empty", {0}, options) end
   if n == 1 and torch.is_tensor(first) then return alias(name, first, dtype, kind) end
   if n == 1 and torch._is_size(first) then return make(name, "empty", first, options) end
   if n == 1 and type(first) == "table" then return make(name, "tensor", first, options) end
   local sizes = {...}
   for i = 1, n do
      if math.type(sizes[i]) ~= "integer" or sizes[i] < 0 then
         args.refuse(name, n == 1 and "data" or ("size[%d]"):format(i),
            n == 1 and "sizes, a table of data or a tensor" or "an integer of at least 0", sizes[i])
      end
   end
   return make(name, "empty", sizes, options)
end

--- Constructs a tensor of the dtype and the kind of device in its name: from sizes, from a table of
--- data, or from a tensor, whose elements the result shares. `torch.isinstance(x, type)` tells
--- whether x is such a tensor.
---
---     print(torch.FloatTensor {1, 2})
---     --> tensor([1., 2.])
---     print(torch.LongTensor(2, 3).shape[2])
---     --> 3
---@names torch.FloatTensor torch.DoubleTensor torch.HalfTensor torch.BFloat16Tensor
---@names torch.CharTensor torch.ByteTensor torch.ShortTensor torch.IntTensor torch.LongTensor
---@names torch.BoolTensor cuda.FloatTensor cuda.DoubleTensor cuda.HalfTensor cuda.BFloat16Tensor
---@names cuda.CharTensor cuda.ByteTensor cuda.ShortTensor cuda.IntTensor cuda.LongTensor
---@names cuda.BoolTensor sim.FloatTensor sim.DoubleTensor sim.HalfTensor sim.BFloat16Tensor
---@names sim.CharTensor sim.ByteTensor sim.ShortTensor sim.IntTensor sim.LongTensor sim.BoolTensor
---@param ... integer|table|Tensor
---@return Tensor
local function constructor(name, dtype, kind)
   local title = kind and kind ~= "cpu" and ("torch.%s.%s"):format(kind, name) or "torch." .. name
   return setmetatable({}, {
      __call = function(_, ...) return construct(title:gsub("^torch%.", ""), dtype, kind, ...) end,
      __tostring = function() return title end,
      __index = torch.Tensor,
      holds = function(value)
         return torch.is_tensor(value) and value.dtype == dtype
            and value.device.type == kind
      end,
   })
end

--- Constructs a tensor of the default dtype: from sizes, from a table of data, or from a tensor,
--- whose elements the result shares. A plain table of sizes also counts as data.
---@param ... integer|table|Tensor
---@return Tensor
function M.Tensor(...) return construct("Tensor", nil, nil, ...) end

--- Returns a table from names (FloatTensor, LongTensor, ...) to the constructors for one kind of
--- device.
---@param kind string  "cpu", "cuda" or "sim"
---@return table<string, table>
function M.of(kind)
   local list = {}
   for name, dtype in pairs(dtypes) do list[name] = constructor(name, dtype, kind) end
   return list
end

for name, value in pairs(M.of "cpu") do M[name] = value end

return M
