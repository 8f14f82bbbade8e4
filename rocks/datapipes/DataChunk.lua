-- DataChunk.lua - defines the class of batches. A batch is a list of items, which pipes return.
--
--    local chunk = torch.data.DataChunk {1, 2, 3}
--    print(#chunk, chunk[3])
--    --> 3	3

local args = require "tlua.args"
local class = require "tlua.class"
local rows = require "tlua.datapipes.rows"

---@class data.DataChunk
---@field [integer] any  the items
---@overload fun(items: any[]): data.DataChunk
local DataChunk = class.class("data.DataChunk")

---@param items any[]
function DataChunk:__init(items)
   local is_list = type(items) == "table"
      and (not getmetatable(items) or getmetatable(items) == DataChunk)
   if not is_list then args.refuse("data.DataChunk", "items", "a list", items) end
   rows.check_list("data.DataChunk", "items", items, "a value")
   table.move(items, 1, #items, 1, self)
end

--- Iterates over the items.
---@return fun(): any
function DataChunk:iter()
   local i = 0
   return function()
      i = i + 1
      return self[i]
   end
end

--- Iterates over the items. A derived class may override `iter` to iterate over the contents of its
--- items. raw_iterator always iterates over the items themselves.
DataChunk.raw_iterator = DataChunk.iter

--- Returns the items as text, such as "[1, 2, 3]".
---@param indent? string  text that is put before the list
---@return string
function DataChunk:as_str(indent)
   local texts = {}
   for i, item in ipairs(self) do texts[i] = tostring(item) end
   return ("%s[%s]"):format(indent or "", table.concat(texts, ", "))
end

function DataChunk:__tostring() return self:as_str() end

return DataChunk
