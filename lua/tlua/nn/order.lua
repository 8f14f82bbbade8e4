-- order.lua - the order of a module's fields.
--
-- Fields stand in the order of their first assignment. Lua, though, assigns the variables of
--
--    self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)
--
-- from the right, after it has made the values from the left. So modules, parameters and buffers
-- that one line assigns to one module, with nothing made in between, stand in the order in which
-- they were made; fields numbered by integers in that of their numbers.

local M = {}

-- Module, parameter or buffer -> how many were made before it.
local birth = setmetatable({}, {__mode = "k"})
local count = 0

-- The last assignment: the module and the function that made it, the line, `count` at the time, and
-- the position of the first field of that line.
local last = setmetatable({}, {__mode = "v"})

--- Notes that a module, parameter or buffer was made.
---@param value nn.Module|Tensor
---@return nn.Module|Tensor value
function M.made(value)
   count = count + 1
   birth[value] = count
   return value
end

--- Lets the next assignment begin a line of its own: functions that assign for their callers do so
--- from one and the same line.
function M.begin() last.module = nil end

-- A host may have left Lua's debug library out; fields then stand in the order of assignment.
local function same_line(module)
   if not debug then return false end
   local where = debug.getinfo(4, "lf") -- above M.add and __newindex
   if not where then return false end
   local same = last.module == module and last.count == count and last.line == where.currentline
      and last.func == where.func
   last.module, last.count, last.line, last.func = module, count, where.currentline, where.func
   return same
end

-- Integers and other fields have no order among each other.
local function rank(module, name)
   local integer = math.type(name) == "integer"
   return integer and name or birth[rawget(module, name)], integer
end

--- Adds the name of a field, which holds its value already, to the list of a module's fields. To be
--- called by the module's __newindex.
---@param module nn.Module
---@param list any[]  names
---@param name any
function M.add(module, list, name)
   local at = #list + 1
   if birth[rawget(module, name)] then
      if not same_line(module) then last.first = at end
      local own, own_integer = rank(module, name)
      for i = at - 1, last.first, -1 do
         local other, integer = rank(module, list[i])
         if other and integer == own_integer and other > own then at = i end
      end
   end
   table.insert(list, at, name)
end

return M
