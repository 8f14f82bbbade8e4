-- values.lua - converts lists and tensors to numbers that can be drawn.

local args = require "tlua.args"
local torch = require "tlua"

local M = {}

--- Returns whether a number can be drawn.
---@param x number
---@return boolean
function M.finite(x)
   return x == x and x ~= math.huge and x ~= -math.huge
end

local function number_of(value)
   if torch.is_tensor(value) and value:numel() == 1 and not value:is_complex() then
      return value:item()
   end
   return value
end

--- Returns a list of numbers from a list or a one-dimensional tensor.
---@param who string  the function, for error messages
---@param what string  the argument
---@param value any
---@return number[]
function M.list(who, what, value)
   if torch.is_tensor(value) then
      if value:dim() ~= 1 or value:is_complex() then
         args.refuse(who, what, "a list of numbers or a real tensor of one dimension", value)
      end
      return value:detach():to("float64"):cpu():tolist()
   end
   if type(value) == "table" and not getmetatable(value) then
      local list = {}
      for i = 1, #value do
         local item = number_of(value[i])
         if type(item) ~= "number" then
            args.refuse(who, ("%s, value %d"):format(what, i), "a number", item)
         end
         list[i] = item
      end
      return list
   end
   args.refuse(who, what, "a list of numbers or a tensor of one dimension", value)
end

--- Returns a list of n numbers. `value` is such a list, a tensor of n numbers, or one number, which
--- is repeated.
---@param who string
---@param what string
---@param value any
---@param n integer
---@return number[]
function M.spread(who, what, value, n)
   local one = number_of(value)
   if type(one) == "number" then
      local list = {}
      for i = 1, n do list[i] = one end
      return list
   end
   local list = M.list(who, what, value)
   M.same_count(who, what, #list, n)
   return list
end

--- Raises an error unless the counts `got` and `expected` are equal. `what` names the argument.
function M.same_count(who, what, got, expected)
   if got ~= expected then
      torch.raise(("%s: %s: expected %d values, got %d"):format(who, what, expected, got))
   end
end

--- Raises an error if a list of texts has nil between its elements.
---@param who string
---@param what string
---@param texts any[]
function M.check_texts(who, what, texts)
   for i = 1, #texts do
      if texts[i] == nil then args.refuse(who, ("%s, value %d"):format(what, i), "a text", nil) end
   end
end

--- Returns 1, 2, ... n.
---@param n integer
---@return integer[]
function M.positions(n)
   local list = {}
   for i = 1, n do list[i] = i end
   return list
end

--- Returns a matrix as a float64 tensor on the CPU, from a tensor or a list of lists.
---@param who string
---@param what string
---@param value any
---@param least integer  the smallest number of rows and columns
---@return Tensor
function M.matrix(who, what, value, least)
   if type(value) == "table" and not getmetatable(value) then
      local ok, made = pcall(torch.tensor, value, {dtype = "float64"})
      if not ok or type(value[1]) ~= "table" then
         args.refuse(who, what, "a matrix of numbers", value)
      end
      value = made
   end
   if not torch.is_tensor(value) or value:dim() ~= 2 or value:is_complex()
      or value:size(1) < least or value:size(2) < least then
      args.refuse(who, what, ("a real matrix of at least %d x %d"):format(least, least), value)
   end
   return value:detach():to("float64"):cpu():contiguous()
end

--- Returns the range of the finite numbers in a list, or nil if there are none.
---@param list number[]
---@param positive? boolean  whether only numbers above zero are used
---@return number? low
---@return number? high
function M.range(list, positive)
   local low, high
   for i = 1, #list do
      local x = list[i]
      if x - x == 0 and not (positive and x <= 0) then -- neither NaN nor infinite
         if not low or x < low then low = x end
         if not high or x > high then high = x end
      end
   end
   return low, high
end

return M
