-- code.lua - finds the names of the fields that the code of a function reads, in the function's
-- compiled form (string.dump). Compiled code of another version than Lua 5.4 has no names.

local HEADER <const> = "\27Lua\x54\0"
-- The length of the header and of the number of upvalues after it.
local BEGIN <const> = 32

-- Instructions that read a field whose name is a constant: of an upvalue, such as _ENV, or of a
-- local variable. OP_SELF of Lua reads a method.
local GETTABUP <const>, GETFIELD <const>, SELF <const> = 11, 14, 20

local Reader = {}
Reader.__index = Reader

function Reader:byte()
   self.at = self.at + 1
   return self.code:byte(self.at - 1)
end

-- Returns an integer of seven bits a byte; the last byte has the highest bit set.
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

-- Returns the constants by their numbers, which begin at 0.
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

-- Reads a function and the functions inside of it. The code has no debug information.
function Reader:fn(fields, methods)
   self:string()
   self:integer()
   self:integer()
   self.at = self.at + 3
   local n = self:integer()
   local start = self.at
   self.at = start + 4 * n
   local constants = self:constants()
   for i = 0, n - 1 do
      local instruction = string.unpack("I4", self.code, start + 4 * i)
      local kind = instruction & 0x7f
      if kind == GETTABUP or kind == GETFIELD or kind == SELF then
         local name = constants[instruction >> 24]
         if name then (kind == SELF and methods or fields)[name] = true end
      end
   end
   self.at = self.at + 3 * self:integer()
   for _ = 1, self:integer() do self:fn(fields, methods) end
   for _ = 1, 4 do self:integer() end -- the empty lists of debug information
end

--- Adds the names of the fields that the code of a Lua function reads to the set `fields`, and the
--- names of the methods that it calls to the set `methods`.
---@param fn function
---@param fields table<string, boolean>
---@param methods table<string, boolean>
return function(fn, fields, methods)
   local code = string.dump(fn, true)
   if code:sub(1, #HEADER) ~= HEADER then return end
   setmetatable({code = code, at = BEGIN + 1}, Reader):fn(fields, methods)
end
