-- order.lua - the order of a module's fields.
--
-- Fields are listed in the order of their first assignment, except in an assignment to several
-- fields:
--
--    self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 1)
--
-- Lua makes these values from left to right, but then assigns them from right to left. So if one
-- line assigns several modules, parameters or buffers to one module, and makes nothing in between,
-- they are listed in the order in which they were made. If such a line assigns to integer keys, the
-- fields are listed by their keys. The rounds of a loop on one line count as separate lines,
-- because the loop's variables differ.

local M = {}

-- Maps each module, parameter or buffer to the number of values that were made before it.
local birth = setmetatable({}, {__mode = "k"})
local count = 0

-- Describes the last assignment: the module, the function and the line that made the assignment,
-- and the value of `count` at that time. The same line may have assigned several fields of the
-- module; the position of the first of these fields in the module's list is stored too.
local last = setmetatable({}, {__mode = "v"})

--- Records that a module, parameter or buffer was made.
---@param value nn.Module|Tensor
---@return nn.Module|Tensor value
function M.made(value)
   count = count + 1
   birth[value] = count
   return value
end

--- Makes the next assignment count as a new line. Functions that assign for their callers need
--- this, since they always assign from the same line.
function M.begin() last.module = nil end

-- The local variables of the function that made the last assignment, as weak values, and the number
-- of these variables.
local locals, nlocals = setmetatable({}, {__mode = "v"}), 0

-- Returns whether the local variables of the function at a stack level have the values that they
-- had at the last assignment. No variable changes while one statement assigns.
local function same_locals(level)
   local same, n = true, 0
   while true do
      local name, value = debug.getlocal(level + 1, n + 1)
      if not name or name == "(temporary)" then break end
      n = n + 1
      same = same and rawequal(locals[n], value)
      locals[n] = value
   end
   same, nlocals = same and n == nlocals, n
   return same
end

-- Returns whether the present assignment is made by the same line of the program as the last one. A
-- host program may lack Lua's debug library; fields are then listed in the order of assignment.
local function same_line(module)
   if not debug then return false end
   local where = debug.getinfo(4, "lf") -- level 4 is the caller of __newindex
   if not where then return false end
   local same = same_locals(4) and last.module == module and last.count == count
      and last.line == where.currentline and last.func == where.func
   last.module, last.count, last.line, last.func = module, count, where.currentline, where.func
   return same
end

-- Returns a field's rank, by which fields are sorted, and whether the field's key is an integer.
-- The ranks of integer keys and of other keys are not compared with each other.
local function rank(module, name)
   local integer = math.type(name) == "integer"
   return integer and name or birth[rawget(module, name)], integer
end

--- Adds the name of a field to the list of a module's fields. The module's __newindex calls this
--- function after setting the field.
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

--- Removes the name of a field from the list of a module's fields.
---@param fields {order: any[], known: table<any, boolean|string>}
---@param name any
function M.remove(fields, name)
   fields.known[name] = nil
   for i = #fields.order, 1, -1 do
      if fields.order[i] == name then table.remove(fields.order, i) end
   end
end

return M
