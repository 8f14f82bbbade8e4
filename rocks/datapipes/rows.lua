-- rows.lua - packs an item into one value, since a buffer or a batch stores one value for each
-- item. An item of several values becomes a row, a table of these values. In a pipe's own buffers,
-- a row has a metatable, which distinguishes it from a user's table. In a batch, which the user
-- sees, a row is a table made by table.pack.

local torch = require "tlua"
local args = require "tlua.args"
local items = require "tlua.data.items"

local M = {}

local Row = {}

--- Packs an item into one value, to store it in a buffer.
---@param first any
---@param ... any
---@return any
function M.hold(first, ...)
   if select("#", ...) == 0 then return first end
   return setmetatable(table.pack(first, ...), Row)
end

--- Returns the values that were passed to `hold`.
---@param held any
---@return any ...
function M.release(held)
   if getmetatable(held) ~= Row then return held end
   return table.unpack(held, 1, held.n)
end

--- Packs an item into one value that the user may see, such as an element of a batch. Several
--- values are packed by table.pack.
---@param first any
---@param ... any
---@return any
function M.pack(first, ...)
   if select("#", ...) == 0 then return first end
   return table.pack(first, ...)
end

--- Returns whether a value was made by table.pack from several values, the first of which is not
--- nil.
---@param value any
---@return boolean
function M.is_packed(value)
   if type(value) ~= "table" or getmetatable(value) or math.type(value.n) ~= "integer"
      or value.n < 2 or value[1] == nil then
      return false
   end
   for key in pairs(value) do
      local is_place = math.type(key) == "integer" and key >= 1 and key <= value.n
      if not is_place and key ~= "n" then return false end
   end
   return true
end

--- Returns the values that were passed to `pack`.
---@param value any
---@return any ...
function M.unpack(value)
   if M.is_packed(value) then return table.unpack(value, 1, value.n) end
   return value
end

--- Raises an error for an item whose first value is nil, because nil would end the loop. Otherwise
--- it returns the item.
---@param pipe data.IterDataPipe
---@param what string  the origin of the item, for error messages
---@param ... any
---@return any ...
function M.given(pipe, what, ...)
   if (...) == nil then
      torch.raise(("%s: %s returned nil, which would end the loop; expected a value"):format(
         torch.type(pipe), what))
   end
   return ...
end

--- Raises an error unless a source is a stream, such as an iterable dataset.
---@param who string
---@param what string
---@param source any
function M.check_stream(who, what, source)
   if not items.is_stream(source) then args.refuse(who, what, "an iterable dataset", source) end
end

--- Raises an error if a list has nil between its elements.
---@param who string
---@param what string
---@param list any[]
---@param expected string  what each element should be
function M.check_list(who, what, list, expected)
   for i = 1, #list do
      if list[i] == nil then args.refuse(who, ("%s[%d]"):format(what, i), expected, nil) end
   end
end

--- Returns the length of a source. Raises an error that names the source if it has no length.
---@param source any
---@return integer
function M.length(source)
   local meta = getmetatable(source)
   if type(meta) ~= "table" or not meta.__len then
      torch.raise(("%s has no length"):format(torch.type(source)))
   end
   return #source
end

return M
