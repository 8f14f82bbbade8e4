-- shapes.lua - helpers for the shapes of batches and events, as plain lists of sizes, and for
-- converting parameters to tensors.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Concatenates lists of sizes.
---@param ... integer[]
---@return integer[]
function M.join(...)
   local list = {}
   for _, part in ipairs {...} do table.move(part, 1, #part, #list + 1, list) end
   return list
end

--- Splits a list of sizes: returns the list without its last n sizes, and the list of these n
--- sizes.
---@param size integer[]
---@param n integer
---@return integer[] batch
---@return integer[] event
function M.split(size, n)
   local cut = #size - n
   return table.move(size, 1, cut, 1, {}), table.move(size, cut + 1, #size, 1, {})
end

--- Returns whether two lists of sizes are equal.
---@param a integer[]
---@param b integer[]
---@return boolean
function M.same(a, b)
   return table.concat(a, ",") == table.concat(b, ",")
end

--- Sums the last n dimensions.
---@param x Tensor
---@param n integer
---@return Tensor
function M.sum_last(x, n)
   local dims = {}
   for i = 1, n do dims[i] = -i end
   return n > 0 and x:sum(dims) or x
end

--- Returns whether all elements of the last n dimensions are true.
---@param x Tensor
---@param n integer
---@return Tensor
function M.all_last(x, n)
   return n > 0 and x:flatten(-n, -1):all(-1) or x
end

--- Returns the matrix product in the tensors' own dtype, also under autocast: densities and samples
--- of lower precision would be wrong without notice, and solvers refuse a mix of dtypes.
---@param a Tensor
---@param b Tensor
---@return Tensor
function M.matmul(a, b)
   local kind = torch.device(a.device).type
   if not torch.is_autocast_enabled(kind) then return a:matmul(b) end
   local _ <close> = torch.autocast(kind, {enabled = false})
   local dtype = torch.promote_types(a.dtype, b.dtype)
   return a:to(dtype):matmul(b:to(dtype))
end

--- Returns the matrix-vector product for each matrix of a batch.
---@param matrix Tensor
---@param vector Tensor
---@return Tensor
function M.times(matrix, vector)
   return M.matmul(matrix, vector:unsqueeze(-1)):squeeze(-1)
end

--- Returns a list of sizes; one size becomes a list. Raises an error for any other value.
---@param who string  the function, for messages
---@param name string  the argument's name
---@param value any
---@return integer[]
function M.size(who, name, value)
   if math.type(value) == "integer" then value = {value} end
   local fits, last, count = type(value) == "table", 0, 0
   for key, n in pairs(fits and value or {}) do
      fits = fits and math.type(key) == "integer" and math.type(n) == "integer" and n >= 0
      if fits then last, count = math.max(last, key), count + 1 end
   end
   fits = fits and last == count -- sizes after a nil in the list would be lost
   if not fits then args.refuse(who, name, "a list of sizes", value) end
   return value
end

--- Returns the dtype and device of uniform numbers from which samples are computed: float32 instead
--- of half types, whose few numbers near 0 and 1 distort the tails of a distribution.
---@param like table  dtype and device of the samples
---@return table like
function M.of_uniform(like)
   local is_half = like.dtype == "float16" or like.dtype == "bfloat16"
   return is_half and {dtype = "float32", device = like.device} or like
end

--- Returns a list of sizes as text.
---@param size integer[]
---@return string
function M.text(size)
   return "(" .. table.concat(size, ", ") .. ")"
end

local function is_integral(x)
   return not x:is_floating_point() and not x:is_complex()
end

--- Converts numbers, lists and integer tensors to tensors with the dtype and device of the first
--- floating-point tensor among the arguments, or, if there is none, with the default dtype.
---@param who string  the class, for messages
---@param given table<string, any>
---@param names string[]
---@return table<string, Tensor>
function M.tensors(who, given, names)
   local like
   for _, name in ipairs(names) do
      local value = given[name]
      if torch.is_tensor(value) and (not like or is_integral(like)) then like = value end
   end
   local dtype = like and like:is_floating_point() and like.dtype or torch.get_default_dtype()
   local options = {dtype = dtype, device = like and like.device or nil}
   local made = {}
   for _, name in ipairs(names) do
      local value, fits = given[name], false
      if torch.is_tensor(value) and not value:is_complex() then
         made[name], fits = is_integral(value) and value:to(options.dtype) or value, true
      elseif type(value) == "number" or type(value) == "table" and getmetatable(value) == nil then
         fits, made[name] = pcall(torch.tensor, value, options)
      end
      if value ~= nil and not fits then
         args.refuse(who, name, "a number, a list of numbers or a tensor of real numbers",
            value)
      end
   end
   return made
end

--- Broadcasts parameters to a common batch shape. Their last dimensions, which belong to an event,
--- do not change.
---@param who string  the class, for messages
---@param made table<string, Tensor>  changed
---@param names string[]
---@param event_dims table<string, integer>  the number of dimensions of an event
---@return integer[] batch_shape
function M.broadcast(who, made, names, event_dims)
   local batches, told = {}, {}
   for _, name in ipairs(names) do
      local x, n = made[name], event_dims[name]
      if x then
         if x:dim() < n then
            args.refuse(who, name, ("at least %d dimension%s"):format(n, n == 1 and "" or "s"), x)
         end
         batches[#batches + 1] = M.split(x.shape, n)
         told[#told + 1] = name .. " " .. M.text(x.shape)
      end
   end
   local ok, batch = pcall(torch.broadcast_shapes, table.unpack(batches))
   if not ok then
      torch.raise(("%s: expected parameters that broadcast, got %s"):format(who,
         table.concat(told, " and ")))
   end
   for _, name in ipairs(names) do
      local x = made[name]
      local _, event = M.split(x and x.shape or {}, x and event_dims[name] or 0)
      if x then made[name] = x:expand(M.join(batch, event)) end
   end
   return batch
end

return M
