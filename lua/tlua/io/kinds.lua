-- kinds.lua - decides which Lua tables are lists and which are dictionaries, for formats that
-- distinguish them.
--
-- A table whose keys are 1 to n is a list; any other table, also the empty table, is a dictionary.
-- If that rule is wrong for a table, a metatable marks the table: `as_dict {"a", "b"}` is the
-- dictionary {1: "a", 2: "b"}, `as_list {}` the empty list. Tables have no order, so dictionaries
-- are written with sorted keys, numbers first.

local json = require "tlua.utils.json"

local M = {}

--- The metatable that marks tables as dictionaries.
M.dict = {__name = "io.dict"}

--- The metatable that marks tables as lists, which is also the metatable of JSON's arrays.
M.list = json.array

--- The metatable that marks tables as tuples.
M.tuple = {__name = "io.tuple"}

local known <const> = {[M.dict] = "dict", [M.list] = "list", [M.tuple] = "tuple"}

--- Returns whether the keys of a table are 1 to n, with n of at least 1.
---@param value table
---@return boolean
function M.looks_like_list(value)
   local n, count = #value, 0
   if n == 0 then return false end
   for key in next, value do
      if math.type(key) ~= "integer" or key < 1 or key > n then return false end
      count = count + 1
   end
   return count == n
end

--- Returns the kind of a table, or nil if it has another metatable, as a module does.
---@param value table
---@return "dict"|"list"|"tuple"|nil
function M.of(value)
   local meta = getmetatable(value)
   if meta then return known[meta] end
   return M.looks_like_list(value) and "list" or "dict"
end

local function marked(name, value, meta)
   if require "tlua"._is_size(value) then value = table.move(value, 1, #value, 1, {}) end
   local old = type(value) == "table" and getmetatable(value)
   if type(value) ~= "table" or old and not known[old] then
      require "tlua.args".refuse(name, "value", "a table without a metatable", value)
   end
   return setmetatable(value, meta)
end

--- Makes torch.save write a table as a dictionary even if its keys are 1 to n.
---@param value table
---@return table value  the same
function M.as_dict(value) return marked("io.as_dict", value, M.dict) end

--- Makes torch.save write a table as a list even if it is empty.
---@param value table
---@return table value  the same
function M.as_list(value) return marked("io.as_list", value, M.list) end

--- Returns the keys of a table in a fixed order, so that the same table gives the same file.
---@param value table
---@return any[]
function M.sorted_keys(value)
   local keys = {}
   for key in next, value do keys[#keys + 1] = key end
   table.sort(keys, function(a, b)
      local x, y = math.type(a) ~= nil, math.type(b) ~= nil
      if x and y then return a < b end
      if x ~= y then return x end
      return tostring(a) < tostring(b)
   end)
   return keys
end

return M
