-- code.lua - finds the names of the fields that the code of a function reads, in the function's
-- compiled form (string.dump). If the compiled code is not that of Lua 5.4, no names are found.

local HEADER <const> = "\27Lua\x54\0"
-- The number of bytes in the header of compiled code, with the number of upvalues after the header.
local BEGIN <const> = 32

-- Opcodes of Lua 5.4. GETTABUP and GETFIELD read a field whose name is a constant, from an upvalue,
-- such as _ENV, or from a local variable. SELF reads a method, and GETTABLE a field whose key is
-- computed.
local GETTABUP <const>, GETFIELD <const>, SELF <const> = 11, 14, 20
local GETUPVAL <const>, GETTABLE <const>, GETI <const>, SETFIELD <const> = 9, 12, 13, 18
local SETUPVAL <const>, SETTABUP <const>, ADDI <const>, LEN <const> = 10, 15, 21, 52
local SETTABLE <const>, SETI <const> = 16, 17

-- Instructions that may stand between the read of a variable and its assignment in an update, such
-- as n = n + 1 or self.n = (self.n or 0) + 1: moves, loads of constants, reads, additions,
-- subtractions, products with constants, their metamethods, tests and jumps.
local update <const> = {}
for _, kind in ipairs {0, 1, 2, 3, 9, 11, 13, 14, 21, 22, 23, 24, 34, 35, 46, 47, 48, 56, 66, 67} do
   update[kind] = true
end
-- The largest number of these instructions.
local LONGEST_UPDATE <const> = 10

local Reader = {}
Reader.__index = Reader

function Reader:byte()
   self.at = self.at + 1
   return self.code:byte(self.at - 1)
end

-- Reads an integer. Each byte has seven bits, the highest first, and only the last byte has its
-- highest bit set.
function Reader:integer()
   local value = 0
   repeat
      local byte = self:byte()
      value = value << 7 | byte & 0x7f
   until byte >= 0x80
   return value
end

function Reader:string()
   local size = self:integer()
   if size == 0 then return nil end
   local start = self.at
   self.at = start + size - 1
   return self.code:sub(start, self.at - 1)
end

-- Reads the constants of a function. Returns the strings among them by their numbers, which begin
-- at 0.
function Reader:constants()
   local list = {}
   for i = 0, self:integer() - 1 do
      local kind = self:byte()
      if kind == 4 or kind == 20 then -- a string
         list[i] = self:string()
      elseif kind == 3 or kind == 19 then -- a number
         self.at = self.at + 8
      end
   end
   return list
end

-- For an instruction that reads a computed key or a length, adds the name of the table to the set
-- `into`: the name of the field, or of the upvalue of `fn`, from which the table was read. `from`
-- maps each register to the last instruction that has set the register.
local function add_table(into, instruction, from, constants, fn)
   local origin = from[instruction >> 16 & 0xff]
   local kind = origin and origin & 0x7f
   local name
   if kind == GETTABUP or kind == GETFIELD then name = constants[origin >> 24] end
   if kind == GETUPVAL and fn then name = debug.getupvalue(fn, (origin >> 16 & 0xff) + 1) end
   if name then into[name] = true end
end

-- Reads the upvalues of a function, and returns the set of those that are the first parameter of an
-- enclosing function, such as the `self` of a method. In the directly enclosing function, this
-- parameter is in the register `outer.register` or in the upvalues of the set `outer.upvalues`.
function Reader:upvalues(outer)
   local set = {}
   for i = 0, self:integer() - 1 do
      local in_register, number = self:byte() ~= 0, self:byte()
      self.at = self.at + 1
      if in_register then set[i] = number == outer.register else set[i] = outer.upvalues[number] end
   end
   return set
end

-- Returns whether the instruction at `start` reads a variable or a field only to update it. The
-- variable is the upvalue with the given number, counted from 0; the field has the given name or
-- integer key. With the key true, any computed key will do.
function Reader:updates(start, number, name, constants)
   for i = 1, LONGEST_UPDATE do
      local instruction = string.unpack("I4", self.code, start + 4 * i)
      local kind, place = instruction & 0x7f, instruction >> 16 & 0xff
      if kind == SETUPVAL then return place == number end
      if kind == SETFIELD or kind == SETTABUP then return constants[place] == name end
      if kind == SETI then return place == name end
      if kind == SETTABLE then return name == true end
      if not update[kind] then return false end
   end
   return false
end

-- Reads the code of the function `fn` and of the functions inside it, for which `fn` is nil. The
-- code has no debug information.
function Reader:fn(into, outer, fn)
   self:string()
   self:integer()
   self:integer()
   local parameters = self:byte()
   self.at = self.at + 2
   local n = self:integer()
   local start = self.at
   self.at = start + 4 * n
   local constants, from, upvalues = self:constants(), {}, self:upvalues(outer)
   local register = fn and parameters > 0 and 0
   for i = 0, n - 1 do
      local instruction = string.unpack("I4", self.code, start + 4 * i)
      local kind, place = instruction & 0x7f, instruction >> 16 & 0xff
      if kind == GETTABUP or kind == GETFIELD or kind == SELF then
         local name = constants[instruction >> 24]
         if name then (kind == SELF and into.methods or into.fields)[name] = true end
         if name and kind ~= SELF and not self:updates(start + 4 * i, nil, name, constants) then
            into.used[name] = true
         end
         local is_own = kind == GETFIELD and place == register
            or kind == GETTABUP and upvalues[place]
         if name and is_own then into.own[name] = true end
      end
      if kind == SETFIELD then into.assigned[constants[place]] = true end
      if kind == GETUPVAL and fn and not self:updates(start + 4 * i, place, nil, constants) then
         into.variables[place + 1] = true
      end
      if kind == GETTABLE or kind == GETI then
         add_table(into.tables, instruction, from, constants, fn)
         local key = kind == GETTABLE or instruction >> 24
         if not self:updates(start + 4 * i, nil, key, constants) then
            add_table(into.items, instruction, from, constants, fn)
         end
      end
      -- a length plus 1 is where a script appends
      if kind == LEN and string.unpack("I4", self.code, start + 4 * i + 4) & 0x7f ~= ADDI then
         add_table(into.lengths, instruction, from, constants, fn)
      end
      from[instruction >> 7 & 0xff] = instruction
   end
   outer = {register = register, upvalues = upvalues}
   for _ = 1, self:integer() do self:fn(into, outer) end
   for _ = 1, 4 do self:integer() end -- the empty lists of debug information
end

--- Adds names in the code of a Lua function to sets: to `fields` the fields that it reads; to
--- `methods` the methods that it calls; to `own` the fields of its first parameter, such as the
--- `self` of a method, that it reads; to `assigned` the fields that it sets; to `tables` the fields
--- and upvalues whose values it indexes by computed keys or integers; to `items` those of them
--- whose values it reads for more than an update such as t[1] = t[1] + 1; to `lengths` the fields
--- and upvalues whose lengths it reads, except to append; and to `used` the fields, and to
--- `variables` the numbers of the upvalues, that it reads for more than an update such as
--- n = n + 1.
---@param fn function
---@param into table<string, table<string, boolean>>
return function(fn, into)
   local code = string.dump(fn, true)
   if code:sub(1, #HEADER) ~= HEADER then return end
   setmetatable({code = code, at = BEGIN + 1}, Reader):fn(into, {upvalues = {}}, fn)
end
