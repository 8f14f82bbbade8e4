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
local SETUPVAL <const>, SETTABUP <const>, ADDI <const> = 10, 15, 21
local SETTABLE <const>, SETI <const>, NEWTABLE <const> = 16, 17, 19

-- Instructions that may stand between the read of a variable and its assignment in an update, such
-- as n = n + 1, self.n = (self.n or 0) + 1 or n = n + x:size(1). `from_b` has those whose result is
-- computed from the register B, `from_both` those whose result is computed from B and C, and
-- `fresh` those whose result does not depend on registers.
local MOVE <const>, ADD <const>, SHR <const>, CONCAT <const> = 0, 34, 45, 53
local MMBIN <const>, MMBINK <const>, JMP <const>, EQ <const>, LT <const>, LE <const> =
   46, 48, 56, 57, 58, 59
local EQK <const>, GEI <const>, TEST <const>, TESTSET <const>, CALL <const> = 60, 65, 66, 67, 68
local LOADI <const>, LOADTRUE <const>, UNM <const>, LEN <const> = 1, 7, 49, 52
-- The number in an instruction JMP that stands for a jump of length 0.
local JUMP_ZERO <const> = (1 << 24) - 1
local from_b <const>, from_both <const>, fresh <const> = {[MOVE] = true}, {}, {}
for kind = LOADI, LOADTRUE do fresh[kind] = true end
fresh[GETUPVAL], fresh[GETTABUP] = true, true
for kind = ADDI, SHR do (kind < ADD and from_b or from_both)[kind] = true end
for kind = UNM, LEN do from_b[kind] = true end
-- Instructions whose result may be the same for many values of an operand: bitwise operations,
-- remainders, integer division, `not` and the length.
local coarse <const> = {[25] = true, [28] = true, [37] = true, [40] = true, [50] = true,
   [51] = true, [LEN] = true}
for kind = 29, 33 do coarse[kind], coarse[kind + 12] = true, true end
-- The bits of an instruction besides the register that it sets.
local SAME <const> = ~(0xff << 7)
-- The largest number of these instructions.
local LONGEST_UPDATE <const> = 40

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
-- maps each register to the last instruction that has set the register. Returns whether the table
-- is known: has a name, or is new.
local function add_table(into, instruction, from, constants, fn)
   local origin = from[instruction >> 16 & 0xff]
   local kind = origin and origin & 0x7f
   local name
   if kind == GETTABUP or kind == GETFIELD then name = constants[origin >> 24] end
   if kind == GETUPVAL and fn then name = debug.getupvalue(fn, (origin >> 16 & 0xff) + 1) end
   if name then into[name] = true end
   return name ~= nil or kind == NEWTABLE
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

-- Adds the effect of an instruction to the set `held` of the registers with a value that was
-- computed from the variable. Returns false if the instruction uses such a value for more than
-- a computation. `alone` tells whether the instruction is run only for some values of the variable.
local function follow_value(held, instruction, alone)
   local kind, a = instruction & 0x7f, instruction >> 7 & 0xff
   local b, c = instruction >> 16 & 0xff, instruction >> 24
   if kind >= MMBIN and kind <= MMBINK then return true end
   if fresh[kind] then
      held[a] = nil
   elseif from_b[kind] then
      held[a] = held[b]
   elseif from_both[kind] then
      held[a] = held[b] or held[c]
   elseif kind == CONCAT then
      for register = a + 1, a + b - 1 do held[a] = held[a] or held[register] end
   elseif kind == TEST then
      return true
   elseif kind == TESTSET then
      held[a] = held[a] or held[b]
   elseif kind == EQ or kind == LT or kind == LE then
      return not held[a] and not held[b]
   elseif kind >= EQK and kind <= GEI then
      return not held[a]
   elseif kind == GETFIELD or kind == GETI or kind == GETTABLE or kind == SELF then
      if alone or held[b] or kind == GETTABLE and held[c] then return false end
      held[a] = nil
      if kind == SELF then held[a + 1] = nil end
   elseif kind == CALL then
      for register in next, held do
         if register >= a and (b == 0 or register < a + b) then return false end
      end
      if alone then return false end
      for register in next, held do
         if register >= a then held[register] = nil end
      end
   else
      return false
   end
   return true
end

-- Returns whether the set `held` has only registers that are no local variables, and that are at or
-- above the register `stored`.
local function is_temporary(held, stored, locals)
   for register in next, held do
      if not locals or locals[register] or register < stored then return false end
   end
   return true
end

-- Returns whether the instruction at `start` reads a variable or a field only to update it. The
-- variable is the upvalue with the given number, counted from 0; the field has the given name or
-- integer key. With the key true, any computed key will do. A value that is also in a local
-- variable, or in a register below that of the stored value, when it is stored may have more
-- effects, as may a jump behind the update. `locals(at)` returns the set of the registers that are
-- local variables at the instruction `at`.
--
-- If the value is used only to compute another upvalue, or another field of the same table, the
-- first result is false and the second is the number of the upvalue or the name of the field.
-- `is_owner(kind, place)` returns whether an instruction of the kind sets a field of the same
-- table, which the instruction finds in the register or the upvalue with the number `place`.
function Reader:updates(start, number, name, constants, locals, is_owner)
   local first = string.unpack("I4", self.code, start)
   local farthest, guarded, tested, held = 0, 0, false, {[first >> 7 & 0xff] = true}
   local flows = true -- whether each value of the variable gives another result
   for i = 1, LONGEST_UPDATE do
      local instruction = string.unpack("I4", self.code, start + 4 * i)
      local kind, place = instruction & 0x7f, instruction >> 16 & 0xff
      local owner = instruction >> 7 & 0xff
      local alike, target
      if kind == SETUPVAL then alike, target = place == number, number and place end
      if kind == SETFIELD or kind == SETTABUP then
         alike, target = constants[place] == name, is_owner(kind, owner) and constants[place]
      end
      if kind == SETI then alike = place == name end
      if kind == SETTABLE then alike = name == true and not held[place] end
      if alike ~= nil then
         local stored, constant = instruction >> 24, instruction >> 15 & 1 == 1
         if kind == SETUPVAL then stored = owner elseif constant then stored = math.huge end
         local by_number = kind == SETUPVAL or kind == SETTABUP
         local fits = farthest <= i and (by_number or not held[owner])
            and is_temporary(held, stored, locals(start + 4 * i))
         return fits and alike, fits and flows and held[stored] and target
      end
      if kind == JMP then
         local target_of = i + 1 + (instruction >> 7) - JUMP_ZERO
         if target_of <= i then return false end
         farthest, guarded = math.max(farthest, target_of), tested and target_of or guarded
      elseif not follow_value(held, instruction, i < guarded) then
         return false
      end
      tested = kind == TEST and held[owner] or kind == TESTSET and held[place] or false
      flows = flows and not tested and not coarse[kind]
   end
   return false
end

-- Reads the debug information of a function. Returns a list of its local variables, as {the first
-- instruction at which the variable is alive, counted from 0; the first at which it is dead}.
-- Returns nil for a function without debug information.
function Reader:local_variables()
   local lines = self:integer()
   self.at = self.at + lines
   for _ = 1, 2 * self:integer() do self:integer() end -- absolute line numbers
   local list = {}
   for i = 1, self:integer() do
      self:string()
      list[i] = {self:integer(), self:integer()}
   end
   for _ = 1, self:integer() do self:string() end -- the names of upvalues
   return lines > 0 and list or nil
end

-- Returns a function for Reader:updates. The variables that are alive at an instruction have the
-- registers 0, 1, ... in the order of the list.
local function registers_of(variables, start)
   return function(position)
      local at, set, n = (position - start) // 4, {}, 0
      if not variables then return nil end
      for _, variable in ipairs(variables) do
         if variable[1] <= at and at < variable[2] then set[n], n = true, n + 1 end
      end
      return set
   end
end

-- Reads the code of the function `fn` and of the functions inside it, for which `fn` is nil.
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
   local inner = {register = register, upvalues = upvalues}
   for _ = 1, self:integer() do self:fn(into, inner) end
   local locals = registers_of(self:local_variables(), start)
   for i = 0, n - 1 do
      local instruction = string.unpack("I4", self.code, start + 4 * i)
      local kind, place = instruction & 0x7f, instruction >> 16 & 0xff
      local function only_updates(number, key)
         local origin = from[place]
         local function is_owner(setting, owner)
            if kind == GETTABUP then return setting == SETTABUP and owner == place end
            if kind ~= GETFIELD or setting ~= SETFIELD then return false end
            local other = from[owner]
            return owner == place or origin and other and origin & SAME == other & SAME
         end
         return self:updates(start + 4 * i, number, key, constants, locals, is_owner)
      end
      if kind == GETTABUP or kind == GETFIELD or kind == SELF then
         local name = constants[instruction >> 24]
         if name then (kind == SELF and into.methods or into.fields)[name] = true end
         if name and kind ~= SELF then
            local updates, target = only_updates(nil, name)
            if target then table.insert(into.flows, {field = name, target = target}) end
            if not updates and not target then
               into.used[name] = true
               if fn and kind == GETTABUP then into.variables[place + 1] = true end
            end
         end
         local is_own = kind == GETFIELD and place == register
            or kind == GETTABUP and upvalues[place]
         if name and is_own then into.own[name] = true end
      end
      if kind == SETFIELD then into.assigned[constants[place]] = true end
      if kind == GETUPVAL and fn then
         local updates, target = only_updates(place)
         if target then
            table.insert(into.flows, {variable = place + 1, target = target + 1})
         end
         if not updates and not target then into.variables[place + 1] = true end
      end
      if kind == GETTABLE or kind == GETI then
         add_table(into.tables, instruction, from, constants, fn)
         local key = kind == GETTABLE or instruction >> 24
         if not only_updates(nil, key) then
            local known = add_table(into.items, instruction, from, constants, fn)
            if not known then into.keys[kind == GETTABLE and "computed" or key] = true end
         end
      end
      -- a length plus 1 is where a script appends
      if kind == LEN and string.unpack("I4", self.code, start + 4 * i + 4) & 0x7f ~= ADDI then
         add_table(into.lengths, instruction, from, constants, fn)
      end
      from[instruction >> 7 & 0xff] = instruction
   end
end

--- Adds names in the code of a Lua function to sets: to `fields` the fields that it reads; to
--- `methods` the methods that it calls; to `own` the fields of its first parameter, such as the
--- `self` of a method, that it reads; to `assigned` the fields that it sets; to `tables` the fields
--- and upvalues whose values it indexes by computed keys or integers; to `items` those of them
--- whose values it reads for more than an update such as t[1] = t[1] + 1; to `lengths` the fields
--- and upvalues whose lengths it reads, except to append; to `keys` the integers that it reads from
--- other tables, such as parameters, and "computed" if it reads computed keys from them; and to
--- `used` the fields, and to `variables` the numbers of the upvalues, that it reads for more than
--- an update such as n = n + 1. Appends to the list `flows` {field, target} for each field, and
--- {variable, target} for each upvalue, that it reads only to compute another field of the same
--- table, such as the mean in t.mean = t.sum / t.n, or another upvalue.
---@param fn function
---@param into table<string, table<string, boolean>>
return function(fn, into)
   local code = string.dump(fn)
   if code:sub(1, #HEADER) ~= HEADER then return end
   setmetatable({code = code, at = BEGIN + 1}, Reader):fn(into, {upvalues = {}}, fn)
end
