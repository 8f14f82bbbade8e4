-- checks.lua - functions that check the arguments of other functions of torch.audio, and functions
-- that reshape tensors.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Raises an error unless a value is a floating-point tensor with at least `dims` dimensions.
---@param title string  the function's name, for error messages
---@param name string  the argument's name
---@param value any
---@param dims integer
---@param shape string  the expected shape, for error messages
function M.real(title, name, value, dims, shape)
   if not torch.is_tensor(value) then
      args.refuse(title, name, "a tensor of shape " .. shape, value)
   end
   if not value:is_floating_point() then
      args.refuse(title, name, "floating-point numbers; from int16: x:float() / 32768", value)
   end
   if value:dim() < dims then args.refuse(title, name, "a tensor of shape " .. shape, value) end
end

--- Raises an error unless `lengths` is an integer tensor of `batch` lengths, each from 0 to `most`.
function M.lengths(title, lengths, batch, most)
   if not torch.is_tensor(lengths) or lengths:dim() ~= 1 or lengths:size(1) ~= batch
         or lengths:is_floating_point() or lengths.dtype == "bool" then
      args.refuse(title, "lengths", ("integers of shape (%d)"):format(batch), lengths)
   end
   if batch == 0 then return end
   for _, value in ipairs {lengths:min():item(), lengths:max():item()} do
      if value < 0 or value > most then
         args.refuse(title, "lengths", ("numbers from 0 to %d"):format(most), value)
      end
   end
end

--- Raises an error unless a value is a complex tensor with at least `dims` dimensions.
function M.complex(title, name, value, dims, shape)
   if not torch.is_tensor(value) or not value:is_complex() or value:dim() < dims then
      args.refuse(title, name, "a complex tensor of shape " .. shape, value)
   end
end

--- Raises an error unless a value is a waveform (..., time) of floating-point numbers with at least
--- one sample. `dims` is the least number of dimensions, 1 by default.
function M.waveform(title, value, dims)
   M.real(title, "waveform", value, dims or 1,
      dims == 2 and "(..., channel, time)" or "(..., time)")
   if value:size(-1) == 0 then args.refuse(title, "waveform", "at least one sample", value) end
end

--- Raises an error if a number is below `least`.
function M.at_least(title, name, value, least)
   if value < least or value ~= value then
      args.refuse(title, name, ("at least %s"):format(least), value)
   end
end

--- Raises an error unless a number is positive and finite.
function M.positive(title, name, value)
   if value <= 0 or value ~= value or value == math.huge then
      args.refuse(title, name, "a positive number", value)
   end
end

--- Raises an error unless a value is a key of `set`.
function M.among(title, name, value, set)
   if set[value] then return end
   local list = {}
   for key in pairs(set) do list[#list + 1] = ("%q"):format(key) end
   table.sort(list)
   args.refuse(title, name, table.concat(list, " or "), value)
end

--- Reshapes a tensor so that all dimensions except the last `keep` become one. Also returns a
--- function that replaces the first dimension of a tensor by the original dimensions.
---@param x Tensor
---@param keep integer
---@return Tensor
---@return fun(y: Tensor): Tensor
function M.batch(x, keep)
   local shape = {table.unpack(x.shape)}
   local lead = table.move(shape, 1, #shape - keep, 1, {})
   local rows = 1
   for _, size in ipairs(lead) do rows = rows * size end
   local flat = x:reshape(rows, table.unpack(shape, #shape - keep + 1))
   return flat, function(y)
      local full = table.move(lead, 1, #lead, 1, {})
      for i = 2, y:dim() do full[#full + 1] = y:size(i) end
      return y:reshape(full)
   end
end

--- Maps floating-point dtypes to the complex dtypes whose parts have the same precision.
M.complex_of = {float32 = "complex64", float64 = "complex128"}

--- Returns the value as a tensor of x's dtype and device.
function M.like(x, value)
   if torch.is_tensor(value) then return value:to(x.device):to(x.dtype) end
   return torch.tensor(value, {dtype = x.dtype, device = x.device})
end

return M
