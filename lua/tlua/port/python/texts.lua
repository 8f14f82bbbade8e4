-- texts.lua - implements Python's string methods and its function format.

local torch = require "tlua"
local M = require "tlua.port.python.base"

local show <const> = M.show

--- Implements Python's str(value): lists and dicts are shown with their items.
---@param value any
---@return string
function M.str(value)
   if type(value) == "string" then return value end
   return show(value)
end

local function group_digits(text, separator)
   local sign, whole, rest = text:match "^(%-?)(%d+)(.*)$"
   whole = whole:reverse():gsub("%d%d%d", "%0" .. separator):reverse()
   return sign .. whole:gsub("^" .. separator, "") .. rest
end

-- Returns the digits of an integer in base 2, 8 or 16, with a minus sign for negative integers.
-- Lua's own conversions show negative integers as 64 bits.
local function in_base(n, kind)
   local digits, rest = "", n < 0 and -n or n
   if kind ~= "b" then
      digits = ("%" .. kind):format(rest)
   else
      repeat digits, rest = (rest & 1) .. digits, rest >> 1 until rest == 0
   end
   return (n < 0 and "-" or "") .. digits
end

--- Implements Python's format(value, spec) for specifications that C lacks: `,`, `%`, `^` and fill
--- characters.
---@param value any
---@param spec string
---@return string
function M.format(value, spec)
   local fill, align, rest = (spec or ""):match "^(.)([<>=^])(.*)$"
   if not fill then
      fill, align, rest = " ", (spec or ""):match "^([<>=^]?)(.*)$"
   end
   local sign, hash, zero, width, comma, dot, kind =
      rest:match "^([+ -]?)(#?)(0?)(%d*)([,_]?)(%.?%d*)([%a%%]?)$"
   if not sign then
      error(("format: spec: expected a format specification, got %q"):format(spec), 2)
   end
   if torch.is_tensor(value) then value = value:item() end
   local text
   if kind == "%" then
      text = ("%" .. (dot ~= "" and dot or ".6") .. "f%%"):format(value * 100)
   elseif kind:find "^[bxXo]$" then
      local n = math.tointeger(value)
      if not n then error(("format: value: expected an integer for %q"):format(spec), 2) end
      text = in_base(n, kind)
   elseif kind == "" then
      text = dot ~= "" and (type(value) == "string" and ("%" .. dot .. "s") or ("%" .. dot .. "g"))
         :format(value) or M.str(value)
   else
      text = ("%" .. dot .. kind):format(value)
   end
   if comma ~= "" then text = group_digits(text, comma) end
   if sign:find "[+ ]" and type(value) == "number" and value >= 0 then text = sign .. text end
   if hash ~= "" and kind:find "^[bxXo]$" then
      text = text:gsub("^[+ -]?", "%0" .. "0" .. kind, 1)
   end
   local missing = (tonumber(width) or 0) - (utf8.len(text) or #text)
   if missing <= 0 then return text end
   if zero ~= "" then
      fill, align = "0", "="
   elseif align == "" then
      align = type(value) == "number" and ">" or "<"
   end
   if align == "<" then return text .. fill:rep(missing) end
   if align == "^" then
      return fill:rep(missing // 2) .. text .. fill:rep(missing - missing // 2)
   end
   if align == "=" then
      local mark, digits = text:match "^([+ -]?)(.*)$"
      if hash ~= "" then mark, digits = text:match "^([+ -]?0[bxXo])(.*)$" end
      return mark .. fill:rep(missing) .. digits
   end
   return fill:rep(missing) .. text
end

--- Implements Python's text.format(...) for a text that is computed at run time: `{}`, `{0}`,
--- `{:spec}`.
---@param text string
---@param ... any
---@return string
function M.formatted(text, ...) return M.formatted_by(text, {}, ...) end

--- Implements text.format(..., name=value): `{name}` and `{name:spec}` insert fields of a table.
---@param text string
---@param fields table
---@param ... any
---@return string
function M.formatted_by(text, fields, ...)
   local values, position = table.pack(...), 0
   text = text:gsub("{{", "\1"):gsub("}}", "\2")
   text = text:gsub("{([%w_]*)!?%a?:?([^{}]*)}", function(field, spec)
      local index = tonumber(field)
      if not index and field ~= "" then
         if fields[field] == nil then error(("format: there is no %s"):format(field), 4) end
         return M.format(fields[field], spec)
      end
      if not index then
         index = position
         position = position + 1
      end
      return M.format(values[index + 1], spec)
   end)
   return (text:gsub("\1", "{"):gsub("\2", "}"))
end

local function plain(text) return (text:gsub("%p", "%%%0")) end

local function class_of(characters)
   return characters and "[" .. characters:gsub("[%W]", "%%%0") .. "]" or "%s"
end

--- Implements text.strip(), lstrip and rstrip: removes whitespace, or the given characters, at the
--- ends.
function M.strip(text, characters)
   return M.lstrip(M.rstrip(text, characters), characters)
end
function M.lstrip(text, characters) return (text:gsub("^" .. class_of(characters) .. "+", "")) end
function M.rstrip(text, characters)
   local class, last = class_of(characters), #text
   while last > 0 and text:find("^" .. class, last) do last = last - 1 end
   return text:sub(1, last)
end

--- Implements text.replace(old, new).
function M.replace(text, old, new)
   return (text:gsub(plain(old), (new:gsub("%%", "%%%%"))))
end

--- Implements text.split(separator, limit): returns a list. Without a separator it splits at
--- whitespace, and without a limit, or with a negative one, everywhere.
function M.split(text, separator, limit)
   local list, position = {}, 1
   if limit and limit < 0 then limit = nil end
   if separator == nil then
      text = text:match "^%s*(.*)$"
      while text ~= "" do
         if #list == limit then
            list[#list + 1] = text
            break
         end
         local word, rest = text:match "^(%S+)%s*(.*)$"
         list[#list + 1], text = word, rest
      end
      return list
   end
   while not limit or #list < limit do
      local first, last = text:find(separator, position, true)
      if not first then break end
      list[#list + 1] = text:sub(position, first - 1)
      position = last + 1
   end
   list[#list + 1] = text:sub(position)
   return list
end

--- Implements text.rsplit(separator, limit), which splits at the last separators.
function M.rsplit(text, separator, limit)
   local parts = M.split(text:reverse(), separator and separator:reverse(), limit)
   local list = {}
   for i = #parts, 1, -1 do list[#list + 1] = parts[i]:reverse() end
   return list
end

--- Implements text.splitlines().
function M.splitlines(text)
   local list = {}
   for line in text:gmatch "([^\n]*)\n?" do list[#list + 1] = line end
   if list[#list] == "" then list[#list] = nil end
   return list
end

--- Implements text.find(part): returns the position from 0, or -1.
function M.find(text, part)
   local position = text:find(part, 1, true)
   return position and position - 1 or -1
end

--- Implements text.count(part).
function M.count_text(text, part) return select(2, text:gsub(plain(part), "")) end

function M.startswith(text, part) return text:sub(1, #part) == part end
function M.endswith(text, part) return part == "" or text:sub(-#part) == part end
function M.capitalize(text) return text:sub(1, 1):upper() .. text:sub(2):lower() end
function M.title(text)
   return (text:gsub("(%a)(%a*)", function(a, b) return a:upper() .. b:lower() end))
end
--- Implements text.zfill(width): the zeros come after a sign.
function M.zfill(text, width)
   local sign, rest = text:match "^([+-]?)(.*)$"
   return sign .. M.format(rest, "0>" .. math.max(width - #sign, 0))
end
function M.center(text, width, fill) return M.format(text, (fill or " ") .. "^" .. width) end
function M.ljust(text, width, fill) return M.format(text, (fill or " ") .. "<" .. width) end
function M.rjust(text, width, fill) return M.format(text, (fill or " ") .. ">" .. width) end
function M.isdigit(text) return text:find "^%d+$" ~= nil end
function M.isalpha(text) return text:find "^%a+$" ~= nil end
function M.isspace(text) return text:find "^%s+$" ~= nil end
function M.isupper(text) return text:find "%u" ~= nil and not text:find "%l" end
function M.islower(text) return text:find "%l" ~= nil and not text:find "%u" end

return M
