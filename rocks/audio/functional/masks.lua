-- masks.lua - functions that mask random bands of frequencies or spans of time.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local M = {}

local prefix <const> = "audio.functional."

-- Checks the arguments of a mask. Returns the masked dimension, counted from 1, and the upper limit
-- of the mask's width.
local function check(title, a, dims)
   local x = a.specgrams or a.specgram
   checks.real(title, a.specgrams and "specgrams" or "specgram", x, dims, "(..., freq, time)")
   local axis = a.axis < 0 and x:dim() + 1 + a.axis or a.axis
   if axis ~= x:dim() and axis ~= x:dim() - 1 then
      args.refuse(title, "axis", ("%d for frequency or %d for time"):format(x:dim() - 1, x:dim()),
         a.axis)
   end
   if not (a.p >= 0 and a.p <= 1) then args.refuse(title, "p", "a number from 0 to 1", a.p) end
   local size = x:size(axis)
   local most = a.p == 1 and a.mask_param or math.min(a.mask_param, math.floor(size * a.p))
   return axis, most
end

-- Returns a copy of x with `value` at the positions `first` to `stop` - 1 along the dimension
-- `axis`. Positions count from 0.
local function fill(x, axis, first, stop, value)
   local positions = torch.arange(x:size(axis), {device = x.device})
   if axis == x:dim() - 1 then positions = positions:unsqueeze(2) end
   local mask = positions:ge(first) & positions:lt(stop)
   if torch.is_tensor(value) then return torch.where(mask, value, x) end
   return x:masked_fill(mask, value)
end

local take_same = args.signature(prefix .. [[mask_along_axis(specgram: tensor,
   mask_param: integer, mask_value: number, axis: integer, p: number = 1)]])

--- Masks one random band. All examples have the same band.
---@param specgram Tensor
---@param mask_param integer
---@param mask_value number
---@param axis integer  the dimension of frequency or time
---@param p? number
---@return Tensor
function M.mask_along_axis(...)
   local title, a = prefix .. "mask_along_axis", take_same(...)
   local axis, most = check(title, a, 2)
   if most < 1 then return a.specgram end
   local width = torch.rand(1):item() * most
   local first = math.floor(torch.rand(1):item() * (a.specgram:size(axis) - width))
   return fill(a.specgram, axis, first, first + math.floor(width), a.mask_value)
end

local take_each = args.signature(prefix .. [[mask_along_axis_iid(specgrams: tensor,
   mask_param: integer, mask_value: number|tensor, axis: integer, p: number = 1)]])

--- Masks a random band in each example and channel. The bands are drawn independently.
---@param specgrams Tensor  (..., freq, time), of at least 3 dimensions
---@param mask_param integer
---@param mask_value number|Tensor
---@param axis integer  the dimension of frequency or time
---@param p? number
---@return Tensor
function M.mask_along_axis_iid(...)
   local title, a = prefix .. "mask_along_axis_iid", take_each(...)
   local axis, most = check(title, a, 3)
   local x = a.specgrams
   if most < 1 then return x end
   local shape = table.move({table.unpack(x.shape)}, 1, x:dim() - 2, 1, {})
   local options = {device = x.device, dtype = x.dtype}
   local width = torch.rand(shape, options) * most
   local first = (torch.rand(shape, options) * (x:size(axis) - width)):long()
   first = first:unsqueeze(-1):unsqueeze(-1)
   return fill(x, axis, first, first + width:long():unsqueeze(-1):unsqueeze(-1), a.mask_value)
end

return M
