-- operators.lua - the operators of templates, which return the same results as Python's.

local strings = require "tlua.text.template.strings"
local values = require "tlua.text.template.values"

local M = {}

local fail = values.fail

local function beyond() fail "an integer beyond 64 bits" end

-- Returns the product of two integers, or raises an error if it overflows.
local function product(a, b)
   local about = (a + 0.0) * b
   if about >= 0x1p63 or about < -0x1p63 then beyond() end
   return a * b
end

local function sum(a, b)
   local about = (a + 0.0) + b
   local exact = a + b
   if math.abs(exact - about) > 0x1p62 then beyond() end
   return exact
end

local function power(a, b)
   if math.type(a) == "integer" and math.type(b) == "integer" and b >= 0 then
      local result = 1
      while b > 0 do
         if b & 1 == 1 then result = product(result, a) end
         b = b >> 1
         if b > 0 then a = product(a, a) end
      end
      return result
   end
   if a == 0 and b < 0 then fail "zero cannot be raised to a negative power" end
   if a < 0 and b % 1 ~= 0 then fail "a complex number is not supported" end
   return (a + 0.0) ^ b
end

local numeric = {
   ["+"] = function(a, b)
      if math.type(a) == "float" or math.type(b) == "float" then return a + b end
      return sum(a, b)
   end,
   ["-"] = function(a, b)
      if math.type(a) == "float" or math.type(b) == "float" then return a - b end
      if b == math.mininteger then beyond() end
      return sum(a, -b)
   end,
   ["*"] = function(a, b)
      if math.type(a) == "float" or math.type(b) == "float" then return a * b end
      return product(a, b)
   end,
   ["/"] = function(a, b)
      if b == 0 then fail "division by zero" end
      return a / b
   end,
   ["//"] = function(a, b)
      if b == 0 then fail "integer division or modulo by zero" end
      if b == -1 and a == math.mininteger and math.type(b) == "integer" then beyond() end
      return a // b
   end,
   ["%"] = function(a, b)
      if b == 0 then fail "integer modulo by zero" end
      return a % b
   end,
   ["**"] = power,
}

-- Repeats a string or a list `count` times.
local function repeated(self, value, count)
   count = math.max(count, 0)
   if type(value) == "string" then
      self:check_size(math.min(#value * (count + 0.0), 0x1p40) // 1 | 0)
      return value:rep(count)
   end
   self:check_size(math.min(#value * (count + 0.0) * 8, 0x1p40) // 1 | 0)
   local list = {}
   for i = 1, count do table.move(value, 1, #value, (i - 1) * #value + 1, list) end
   return setmetatable(list, getmetatable(value))
end

local conversions = {}

function conversions.s(value) return values.text(value) end
function conversions.r(value) return values.repr(value) end

-- Like r, with escapes in place of the characters that are not ASCII.
function conversions.a(value)
   return (values.repr(value):gsub("[\xC2-\xF4][\x80-\xBF]+", function(character)
      local code = utf8.codepoint(character)
      local form = code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x"
      return form:format(code)
   end))
end

function conversions.d(value)
   local number = values.number(value)
   if not number then
      fail("%%d format: a real number is required, not %s", values.type_name(value))
   end
   local integer = math.tointeger(number < 0 and math.ceil(number) or math.floor(number))
   return integer or beyond()
end
conversions.i, conversions.u = conversions.d, conversions.d
conversions.x, conversions.X, conversions.o = conversions.d, conversions.d, conversions.d

for letter in ("eEfFgG"):gmatch "." do
   conversions[letter] = function(value)
      return values.number(value)
         or fail("must be real number, not %s", values.type_name(value))
   end
end

-- Formats a negative integer as %x, %X or %o. C would print its bits.
local function format_negative(number, flags, width, digits, letter)
   local alternate = flags:find("#", 1, true) and "#" or ""
   local body = ("%" .. alternate .. digits .. letter):format(-number)
   local missing = (tonumber(width) or 0) - #body - 1
   if flags:find("-", 1, true) then return "-" .. body .. (" "):rep(missing) end
   if flags:find("0", 1, true) and digits == "" then
      local prefix = alternate ~= "" and body:match "^0[xX]" or ""
      return "-" .. prefix .. ("0"):rep(missing) .. body:sub(#prefix + 1)
   end
   return (" "):rep(missing) .. "-" .. body
end

-- Formats a string as Python's operator % does.
function M.format(self, text, value)
   local list = values.kind(value) == "tuple" and value or {value}
   local used, parts, at = 0, {}, 1
   while true do
      local found = text:find("%", at, true)
      parts[#parts + 1] = text:sub(at, (found or #text + 1) - 1)
      if not found then break end
      local name, flags, width, digits, letter, after =
         text:match("^%%(%(?[%w_ ]*%)?)([-+ #0]*)(%d*)(%.?%d*)([%a%%])()", found)
      if not letter then
         name = ""
         flags, width, digits, letter, after =
            text:match("^%%([-+ #0]*)(%d*)(%.?%d*)([%a%%])()", found)
      end
      if not letter then fail "incomplete format" end
      if not name:find "^%(.*%)$" and name ~= "" then
         name = ""
         flags, width, digits, letter, after =
            text:match("^%%([-+ #0]*)(%d*)(%.?%d*)([%a%%])()", found)
      end
      if #width > 4 or #digits > 3 then fail "a format that is too wide" end
      if letter == "%" then
         parts[#parts + 1] = "%"
      else
         local convert, item = conversions[letter]
         if not convert then fail("unsupported format character '%s'", letter) end
         if name ~= "" then
            if values.kind(value) ~= "dict" then fail "format requires a mapping" end
            item = values.get(value, name:sub(2, -2))
            if item == nil then fail("%s", values.repr(name:sub(2, -2))) end
         else
            used = used + 1
            item = list[used]
            if item == nil then fail "not enough arguments for format string" end
         end
         local made = convert(item)
         if type(made) == "string" then
            if digits ~= "" then
               made = strings.sub(made, 1, math.min(strings.length(made),
                  tonumber(digits:sub(2)) or 0))
            end
            local missing = (tonumber(width) or 0) - strings.length(made)
            local blanks = (" "):rep(math.max(missing, 0))
            made = flags:find("-", 1, true) and made .. blanks or blanks .. made
         else
            local kind = letter == "u" and "d" or letter == "F" and "f" or letter
            if #width > 2 or #digits > 3 then fail "a format that is too wide" end
            if made < 0 and kind:find "[xXo]" then
               made = format_negative(made, flags, width, digits, kind)
            else
               made = ("%" .. flags:sub(1, 5) .. width .. digits .. kind):format(made)
            end
         end
         parts[#parts + 1] = made
      end
      at = after
   end
   local is_mapping = values.kind(value) == "dict" or values.kind(value) == "list"
   if used < #list and not is_mapping then
      fail "not all arguments converted during string formatting"
   end
   local whole = table.concat(parts)
   self:check_size(#whole)
   return whole
end

local function is_integer(value)
   return math.type(value) == "integer" or type(value) == "boolean"
end

--- Applies the binary operator `name` to a and b, and returns the result.
---@param self table  the evaluator
---@param name string
---@param a any
---@param b any
---@return any
function M.binary(self, name, a, b)
   local x, y = values.number(a), values.number(b)
   if x and y then return numeric[name](x, y) end
   local kind, other = values.kind(a), values.kind(b)
   if kind == "string" and name == "%" then return M.format(self, a, b) end
   if kind == "undefined" then fail(a.message) end
   if other == "undefined" then fail(b.message) end
   if name == "+" then
      if kind == "string" and other == "string" then
         self:check_size(#a + #b)
         return a .. b
      elseif kind == other and (kind == "list" or kind == "tuple") then
         self:check_size((#a + #b) * 8)
         local list = table.move(a, 1, #a, 1, {})
         return setmetatable(table.move(b, 1, #b, #a + 1, list), getmetatable(a))
      elseif kind == "string" or kind == "list" or kind == "tuple" then
         fail('can only concatenate %s (not "%s") to %s', values.type_name(a),
            values.type_name(b), values.type_name(a))
      end
   elseif name == "*" then
      local repeats = {string = true, list = true, tuple = true}
      if repeats[kind] and is_integer(b) then return repeated(self, a, y) end
      if repeats[other] and is_integer(a) then return repeated(self, b, x) end
   end
   return fail("unsupported operand type(s) for %s: '%s' and '%s'", name == "**"
      and "** or pow()" or name, values.type_name(a), values.type_name(b))
end

--- Returns -a or +a.
---@param name string
---@param a any
---@return number
function M.unary(name, a)
   local number = values.number(a)
   if number == math.mininteger and math.type(number) == "integer" then beyond() end
   if number then return name == "-" and -number or number end
   if values.kind(a) == "undefined" then fail(a.message) end
   return fail("bad operand type for unary %s: '%s'", name, values.type_name(a))
end

local comparisons = {
   ["=="] = values.equal,
   ["!="] = function(a, b) return not values.equal(a, b) end,
   ["<"] = function(a, b) return values.less(a, b, "<") end,
   [">"] = function(a, b) return values.less(b, a, ">") end,
   ["<="] = function(a, b)
      if a ~= a or b ~= b then return false end
      return not values.less(b, a, "<=")
   end,
   [">="] = function(a, b)
      if a ~= a or b ~= b then return false end
      return not values.less(a, b, ">=")
   end,
   ["in"] = function(a, b) return values.contains(b, a) end,
   ["not in"] = function(a, b) return not values.contains(b, a) end,
}

--- Applies the comparison `name` to a and b, and returns whether it holds.
---@param self table  the evaluator
---@param name string
---@param a any
---@param b any
---@return boolean
function M.compare(self, name, a, b)
   if type(b) == "table" then self:charge((values.length(b) or 0) // 8) end
   return comparisons[name](a, b)
end

--- Returns a slice of a value, like value[first:last:step] in Python.
---@param self table  the evaluator
---@param value any
---@param first any
---@param last any
---@param step any
---@return any
function M.slice(self, value, first, last, step)
   local kind = values.kind(value)
   if kind == "undefined" then fail(value.message) end
   if kind ~= "string" and kind ~= "list" and kind ~= "tuple" and kind ~= "range" then
      fail("'%s' object is not subscriptable", values.type_name(value))
   end
   local function bound(at)
      if at == nil or at == values.none then return nil end
      local number = values.number(at)
      if math.type(number) ~= "integer" then
         fail "slice indices must be integers or None or have an __index__ method"
      end
      return number
   end
   local from, to, by = bound(first), bound(last), bound(step) or 1
   if by == 0 then fail "slice step cannot be zero" end
   local length = values.length(value)
   local low, high = by > 0 and 0 or -1, by > 0 and length or length - 1
   local function clamp(at, default)
      if not at then return default end
      if at < 0 then at = at + length end
      return math.max(low, math.min(at, high))
   end
   from = clamp(from, by > 0 and low or high)
   to = clamp(to, by > 0 and high or low)
   self:charge(length // 64)
   if kind == "string" and by == 1 then return strings.sub(value, from + 1, to) end
   local list, items = {}, kind == "string" and strings.characters(value) or value
   for i = from, to + (by > 0 and -1 or 1), by do list[#list + 1] = items[i + 1] end
   self:charge(#list // 8)
   if kind == "string" then return table.concat(list) end
   return kind == "tuple" and values.tuple(list) or values.list(list)
end

return M
