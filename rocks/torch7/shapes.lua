-- shapes.lua - Torch7's layers that change the shape of a tensor. The option numInputDims is the
-- number of dimensions of one sample. If the input has one dimension more, the first dimension is
-- the batch, and the layer leaves it unchanged.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local define = require "tlua.nn.modules.layers".define
local Module = require "tlua.nn.modules.Module"

local M = {}

local function check_tensor(name, input)
   if not torch.is_tensor(input) then args.refuse("nn." .. name, "input", "a tensor", input) end
end

-- Returns sizes as a list. The caller gives them as separate arguments or as one list.
local function sizes_of(name, first, ...)
   local sizes = type(first) == "table" and first or {first, ...}
   if #sizes == 0 then torch.raise(("nn.%s: expected sizes"):format(name)) end
   for i, size in ipairs(sizes) do
      if math.type(size) ~= "integer" then
         args.refuse("nn." .. name, "size " .. i, "an integer", size)
      end
   end
   return table.move(sizes, 1, #sizes, 1, {})
end

local function size_repr(self)
   return table.concat(self.size, ", ")
end

-- View ------------------------------------------------------------------------------------------

--- View(sizes...): gives the input these sizes. One size may be -1; it is then computed from the
--- others. If the input has more elements than the sizes, the result gets a batch dimension in
--- front.
---
---     print(table.unpack(torch.nn.View(6)(torch.zeros(4, 2, 3)).shape))
---     --> 4	6
---@class nn.View: nn.Module
---@overload fun(...: integer): nn.View
local View = class.class("nn.View", Module)
M.View = View

---@param ... integer|integer[]
function View:__init(...)
   Module.__init(self)
   self.size, self.numElements = sizes_of("View", ...), 1
   for _, size in ipairs(self.size) do
      if size == -1 and not self.infers then
         self.infers = true
      elseif size < 0 then
         torch.raise("nn.View: expected sizes of at least 0, and at most one -1")
      else
         self.numElements = self.numElements * size
      end
   end
end

--- Sets the number of input dimensions without the batch dimension.
---@param n integer
---@return nn.View self
function View:setNumInputDims(n)
   self.numInputDims = n
   return self
end

-- Returns the batch size of an input; nil if the input has no batch dimension.
local function batch_of(self, input)
   local dims, shape = input:dim(), input.shape
   local inner, count, samples = self.numInputDims or dims, 1, 1
   for d = dims, math.max(dims - inner + 1, 1), -1 do count = count * shape[d] end
   if self.numElements == 0 or count % self.numElements ~= 0 then
      torch.raise(("nn.View: input: expected a multiple of %d elements, got %d"):format(
         self.numElements, count))
   end
   if not self.infers then samples = count // self.numElements end
   for d = dims - inner, 1, -1 do samples = samples * shape[d] end
   if samples == 1 and (not self.numInputDims or dims <= self.numInputDims) then return nil end
   return samples
end

---@param input Tensor
---@return Tensor
function View:forward(input)
   check_tensor("View", input)
   local samples = batch_of(self, input)
   if samples then return input:reshape({samples, table.unpack(self.size)}) end
   return input:reshape(self.size)
end
View.extra_repr = size_repr

-- Reshape ---------------------------------------------------------------------------------------

--- Reshape(sizes..., batch_mode): gives the input these sizes. If batch_mode is true, the first
--- dimension of the input is the batch. If it is false, there is no batch. If it is nil, a batch is
--- assumed when the number of elements differs or the first dimension has size 1.
---
---     print(table.unpack(torch.nn.Reshape(3, 2)(torch.zeros(4, 6)).shape))
---     --> 4	3	2
---@class nn.Reshape: nn.Module
---@overload fun(...: integer|boolean): nn.Reshape
local Reshape = class.class("nn.Reshape", Module)
M.Reshape = Reshape

---@param ... integer|integer[]|boolean
function Reshape:__init(...)
   Module.__init(self)
   local given = table.pack(...)
   if type(given[given.n]) == "boolean" then
      self.batchMode = given[given.n]
      given.n = given.n - 1
   end
   self.size = sizes_of("Reshape", table.unpack(given, 1, given.n))
   self.nelement = 1
   for _, size in ipairs(self.size) do self.nelement = self.nelement * size end
end

---@param input Tensor
---@return Tensor
function Reshape:forward(input)
   check_tensor("Reshape", input)
   local whole = self.batchMode == false
      or self.batchMode == nil and input:numel() == self.nelement
         and (input:dim() == 0 or input:size(1) ~= 1)
   if whole then return input:reshape(self.size) end
   return input:reshape({input:size(1), table.unpack(self.size)})
end
Reshape.extra_repr = size_repr

-- Dimensions ------------------------------------------------------------------------------------

-- Returns 1 if the input has a batch dimension in front, otherwise 0.
local function offset_of(self, input)
   return self.numInputDims and input:dim() > self.numInputDims and 1 or 0
end

--- Sets the number of input dimensions without the batch dimension; returns the module.
---@names nn.Squeeze:setNumInputDims nn.Unsqueeze:setNumInputDims nn.Transpose:setNumInputDims
---@param n integer
---@return nn.Module
local function set_input_dims(self, n)
   self.numInputDims = n
   return self
end

-- Squeeze(dim): removes a dimension of size 1; without `dim`, removes all dimensions of size 1.
--
--    print(table.unpack(torch.nn.Squeeze(2)(torch.zeros(3, 1, 2)).shape))
--    --> 3	2
M.Squeeze = define("Squeeze", "dim: integer?, numInputDims: count?", function(self, input)
   check_tensor("Squeeze", input)
   if self.dim then return input:squeeze(self.dim + offset_of(self, input)) end
   local batch = offset_of(self, input) == 1 and input:size(1) == 1
   local output = input:squeeze()
   return batch and output:unsqueeze(1) or output
end)

-- Unsqueeze(pos): inserts a dimension of size 1.
--
--    print(table.unpack(torch.nn.Unsqueeze(1)(torch.zeros(3, 2)).shape))
--    --> 1	3	2
M.Unsqueeze = define("Unsqueeze", "pos: integer, numInputDims: count?", function(self, input)
   check_tensor("Unsqueeze", input)
   return input:unsqueeze(self.pos + offset_of(self, input))
end)

--- Transpose({d1, d2}, ...): swaps pairs of dimensions, one pair after another.
---
---     local layer = torch.nn.Transpose({1, 2}, {2, 3})
---     print(table.unpack(layer(torch.zeros(2, 3, 4)).shape))
---     --> 3	4	2
---@class nn.Transpose: nn.Module
---@field permutations integer[][]  the pairs of dimensions
---@overload fun(...: integer[]): nn.Transpose
local Transpose = class.class("nn.Transpose", Module)
M.Transpose = Transpose

---@param ... integer[]
function Transpose:__init(...)
   Module.__init(self)
   self.permutations = {...}
   for i, pair in ipairs(self.permutations) do
      if type(pair) ~= "table" or #pair ~= 2 then
         args.refuse("nn.Transpose", "pair " .. i, "two dimensions", pair)
      end
   end
end

---@param input Tensor
---@return Tensor
function Transpose:forward(input)
   check_tensor("Transpose", input)
   local offset = offset_of(self, input)
   for _, pair in ipairs(self.permutations) do
      input = input:transpose(pair[1] + offset, pair[2] + offset)
   end
   return input
end

function Transpose:extra_repr()
   local pairs_shown = {}
   for i, pair in ipairs(self.permutations) do
      pairs_shown[i] = ("(%d, %d)"):format(pair[1], pair[2])
   end
   return table.concat(pairs_shown, ", ")
end

M.Squeeze.setNumInputDims = set_input_dims
M.Unsqueeze.setNumInputDims = set_input_dims
Transpose.setNumInputDims = set_input_dims

-- Copies ----------------------------------------------------------------------------------------

-- Replicate(nf, dim): repeats the input nf times along a new dimension.
--
--    print(table.unpack(torch.nn.Replicate(3)(torch.zeros(2)).shape))
--    --> 3	2
M.Replicate = define("Replicate", "nf: count, dim: count = 1, ndim: count?", function(self, input)
   check_tensor("Replicate", input)
   local dim = self.dim + (self.ndim and input:dim() > self.ndim and 1 or 0)
   local output = input:unsqueeze(dim)
   local shape = output.shape
   shape[dim] = self.nf
   return output:expand(shape)
end)

-- Padding(dim, pad): inserts |pad| elements `value` along a dimension: near its beginning if pad is
-- negative, otherwise near its end. The index - 1 outermost elements of the input stay outside of
-- the padding.
--
--    print(torch.nn.Padding(1, -2)(torch.tensor {1, 2}))
--    --> tensor([0, 0, 1, 2])
M.Padding = define("Padding", [[dim: integer, pad: integer, nInputDim: count?, value: number = 0,
   index: count = 1]], function(self, input)
   check_tensor("Padding", input)
   local dim = self.dim
   if self.nInputDim and input:dim() ~= self.nInputDim then dim = dim + 1 end
   local shape, n = input.shape, input:size(dim)
   local index = self.pad > 0 and n - self.index + 2 or self.index
   if index < 1 or index > n + 1 then
      args.refuse("nn.Padding", "index", ("1 to %d"):format(n + 1), self.index)
   end
   shape[dim] = math.abs(self.pad)
   local filling = torch.full(shape, self.value, {dtype = input.dtype, device = input.device})
   return torch.cat({input:narrow(dim, 1, index - 1), filling,
      input:narrow(dim, index, n - index + 1)}, dim)
end)

--- Copy(from, to): copies to another dtype or device; `from` is ignored.
---
---     local layer = torch.nn.Copy("float32", "int64")
---     print(layer(torch.tensor {1.5, 2.0}))
---     --> tensor([1, 2])
M.Copy = define("Copy", "intype: string?, outtype: string?", function(self, input)
   check_tensor("Copy", input)
   local output = self.outtype and input:to(self.outtype) or input
   return output == input and input:clone() or output
end)

return M
