-- methods.lua - the methods that a template may call: the methods of Python's str, dict and list
-- that do not change the object. A method is a function(evaluator, value, args, named).

local arguments = require "tlua.text.template.arguments"
local strings = require "tlua.text.template.strings"
local values = require "tlua.text.template.values"

local M = {string = {}, dict = {}, list = {}}

local take, text_of, integer_of = arguments.take, arguments.text, arguments.integer
local fail = values.fail

-- Texts -----------------------------------------------------------------------------------------

local str = M.string

local function simple(name, change)
   str[name] = function(_, text, args, named)
      take(name, args, named)
      return change(text)
   end
end

simple("upper", strings.upper)
simple("lower", strings.lower)
simple("casefold", function(text) return (strings.lower(text):gsub("ß", "ss"):gsub("ς", "σ")) end)
simple("capitalize", strings.capitalize)
simple("title", strings.title)
simple("swapcase", strings.swapcase)
simple("islower", strings.is_lower)
simple("isupper", strings.is_upper)
simple("isdigit", function(text) return strings.all_of(text, "^Nd$") end)
simple("isdecimal", function(text) return strings.all_of(text, "^Nd$") end)
simple("isnumeric", function(text) return strings.all_of(text, "^N") end)
simple("isalpha", function(text) return strings.all_of(text, "^L") end)
simple("isalnum", function(text) return strings.all_of(text, "^[LN]") end)
simple("isascii", strings.is_ascii)
simple("isspace", function(text)
   return text ~= "" and strings.skip_space(text, 1) > #text
end)
simple("isidentifier", function(text)
   return text:find "^[%a_\x80-\xFF][%w_\x80-\xFF]*$" ~= nil
end)
simple("istitle", function(text) return text ~= "" and strings.title(text) == text
   and text:find "[%a\x80-\xFF]" ~= nil end)

for name, ends in pairs {strip = {true, true}, lstrip = {true, false}, rstrip = {false, true}} do
   str[name] = function(_, text, args, named)
      local set = arguments.optional((take(name, args, named, "chars")))
      return strings.strip(text, set and text_of(name, set), ends[1], ends[2])
   end
end

-- Returns the first and last byte of the characters from `first` to `last`, which are interpreted
-- as in a Python slice.
local function range_of(text, first, last)
   local length = strings.length(text)
   local function place(value, default)
      if value == nil or value == values.none then return default end
      local at = integer_of("range", value)
      if at < 0 then at = math.max(0, at + length) end
      return at
   end
   return place(first, 0), math.min(place(last, length), length), length
end

local function begins(name, test)
   str[name] = function(_, text, args, named)
      local affix, first, last = take(name, args, named, "prefix!", "start", "end")
      local from, to, length = range_of(text, first, last)
      if from > length or to < from then return false end
      local part = (first == nil and last == nil) and text or strings.sub(text, from + 1, to)
      if values.kind(affix) == "tuple" then
         for _, one in ipairs(affix) do
            if test(part, text_of(name, one)) then return true end
         end
         return false
      end
      return test(part, text_of(name, affix))
   end
end

local function starts_with(text, prefix) return text:sub(1, #prefix) == prefix end
local function ends_with(text, suffix) return suffix == "" or text:sub(-#suffix) == suffix end

begins("startswith", starts_with)
begins("endswith", ends_with)

function str.removeprefix(_, text, args, named)
   local prefix = text_of("removeprefix", (take("removeprefix", args, named, "prefix!")))
   return starts_with(text, prefix) and text:sub(#prefix + 1) or text
end

function str.removesuffix(_, text, args, named)
   local suffix = text_of("removesuffix", (take("removesuffix", args, named, "suffix!")))
   if suffix == "" or not ends_with(text, suffix) then return text end
   return text:sub(1, -#suffix - 1)
end

-- Splits a text at a separator, at most `most` times. The splits begin at the left, or at the right
-- if from_right is true.
local function split_at(text, separator, most, from_right)
   if separator == "" then fail "empty separator" end
   local list, at = {}, 1
   while true do
      local first, last = text:find(separator, at, true)
      if not first or not from_right and #list == most then break end
      list[#list + 1] = text:sub(at, first - 1)
      at = last + 1
   end
   list[#list + 1] = text:sub(at)
   if from_right and most >= 0 and #list > most + 1 then
      -- Occurrences of a separator may overlap. Those that Python finds from the right differ from
      -- those from the left, so the text is searched backwards.
      local parts, rest = {}, text
      for _ = 1, most do
         local found
         for i = #rest - #separator + 1, 1, -1 do
            if rest:sub(i, i + #separator - 1) == separator then
               found = i
               break
            end
         end
         if not found then break end
         table.insert(parts, 1, rest:sub(found + #separator))
         rest = rest:sub(1, found - 1)
      end
      table.insert(parts, 1, rest)
      return parts
   end
   return list
end

for _, name in ipairs {"split", "rsplit"} do
   str[name] = function(evaluator, text, args, named)
      local separator, most = take(name, args, named, "sep", "maxsplit")
      most = integer_of(name, most, -1)
      evaluator:charge(#text // 8)
      separator = arguments.optional(separator)
      if not separator then
         return values.list((name == "split" and strings.words or strings.words_from_right)(text,
            most))
      end
      return values.list(split_at(text, text_of(name, separator), most, name == "rsplit"))
   end
end

function str.splitlines(evaluator, text, args, named)
   local keeps = take("splitlines", args, named, "keepends")
   evaluator:charge(#text // 8)
   local list, at = {}, 1
   while at <= #text do
      local first, last = text:find("[\n-\r\x1C-\x1E]", at)
      for _, other in ipairs {"\u{85}", "\u{2028}", "\u{2029}"} do
         local from, to = text:find(other, at, true)
         if from and (not first or from < first) then first, last = from, to end
      end
      if not first then
         list[#list + 1] = text:sub(at)
         break
      end
      if text:sub(first, first + 1) == "\r\n" then last = first + 1 end
      list[#list + 1] = text:sub(at, keeps and values.truth(keeps) and last or first - 1)
      at = last + 1
   end
   return values.list(list)
end

for _, name in ipairs {"partition", "rpartition"} do
   str[name] = function(_, text, args, named)
      local separator = text_of(name, (take(name, args, named, "sep!")))
      local parts = split_at(text, separator, 1, name == "rpartition")
      if #parts == 2 then return values.tuple {parts[1], separator, parts[2]} end
      return values.tuple(name == "partition" and {text, "", ""} or {"", "", text})
   end
end

--- Replaces occurrences of `old` by `new`, at most `most` of them.
---@param evaluator table
---@param text string
---@param old string
---@param new string
---@param most integer  a negative number for no limit
---@return string
function M.replace(evaluator, text, old, new, most)
   local parts, n, at, count, size = {}, 0, 1, 0, #text
   local function add(part)
      n = n + 1
      parts[n] = part
   end
   while count ~= most do
      local first, last
      if old == "" then
         if at > #text + 1 then break end
         first, last = at, at - 1
      else
         first, last = text:find(old, at, true)
         if not first then break end
      end
      size = size + #new
      if count % 256 == 0 then evaluator:check_size(size) end
      add(text:sub(at, first - 1))
      add(new)
      count, at = count + 1, last + 1
      if old == "" then
         if at > #text then
            at = at + 1
         else
            local after = utf8.offset(text, 2, at)
            add(text:sub(at, after - 1))
            at = after
         end
      end
   end
   evaluator:check_size(size)
   evaluator:charge(count + #text // 64)
   add(text:sub(at))
   return table.concat(parts)
end

function str.replace(evaluator, text, args, named)
   local old, new, most = take("replace", args, named, "old!", "new!", "count")
   return M.replace(evaluator, text, text_of("replace", old), text_of("replace", new),
      integer_of("replace", most, -1))
end

function str.join(evaluator, text, args, named)
   local parts, size = values.elements((take("join", args, named, "iterable!"))), 0
   for i, part in ipairs(parts) do
      if type(part) ~= "string" then
         fail("sequence item %d: expected str instance, %s found", i - 1, values.type_name(part))
      end
      size = size + #part + #text
      evaluator:check_size(size)
   end
   evaluator:charge(#parts)
   return table.concat(parts, text)
end

-- Returns the position, counted from 0, at which a text occurs in another text, or nil.
local function place_of(name, text, args, named, from_right)
   local part, first, last = take(name, args, named, "sub!", "start", "end")
   part = text_of(name, part)
   local from, to, length = range_of(text, first, last)
   if from > length or to < from then return nil end
   local inside = strings.sub(text, from + 1, to)
   local at = inside:find(part, 1, true)
   if from_right then
      at = nil
      for i = #inside - #part + 1, 1, -1 do
         if inside:sub(i, i + #part - 1) == part then
            at = i
            break
         end
      end
   end
   return at and strings.length(inside:sub(1, at - 1)) + from
end

for name, from_right in pairs {find = false, rfind = true} do
   str[name] = function(_, text, args, named)
      return place_of(name, text, args, named, from_right) or -1
   end
end

for name, from_right in pairs {index = false, rindex = true} do
   str[name] = function(_, text, args, named)
      return place_of(name, text, args, named, from_right) or fail "substring not found"
   end
end

function str.count(_, text, args, named)
   local part, first, last = take("count", args, named, "sub!", "start", "end")
   local from, to, length = range_of(text, first, last)
   if from > length or to < from then return 0 end
   local inside = strings.sub(text, from + 1, to)
   if text_of("count", part) == "" then return strings.length(inside) + 1 end
   return #split_at(inside, part, -1) - 1
end

local function pads(name, pad)
   str[name] = function(evaluator, text, args, named)
      local width, fill = take(name, args, named, "width!", "fillchar")
      fill = fill and text_of(name, fill) or name == "zfill" and "0" or " "
      if strings.length(fill) ~= 1 then
         fail "The fill character must be exactly one character long"
      end
      local missing = integer_of(name, width) - strings.length(text)
      if missing <= 0 then return text end
      evaluator:check_size(#text + missing * #fill)
      return pad(text, fill, missing, integer_of(name, width))
   end
end

pads("ljust", function(text, fill, missing) return text .. fill:rep(missing) end)
pads("rjust", function(text, fill, missing) return fill:rep(missing) .. text end)
pads("center", function(text, fill, missing, width)
   local left = missing // 2 + (missing & width & 1)
   return fill:rep(left) .. text .. fill:rep(missing - left)
end)
pads("zfill", function(text, fill, missing)
   local sign, rest = text:match "^([+-]?)(.*)$"
   return sign .. fill:rep(missing) .. rest
end)

function str.expandtabs(evaluator, text, args, named)
   local size = integer_of("expandtabs", (take("expandtabs", args, named, "tabsize")), 8)
   local parts, column = {}, 0
   evaluator:charge(#text)
   for i, character in ipairs(strings.characters(text)) do
      if character == "\t" then
         local width = size > 0 and size - column % size or 0
         evaluator:check_size(width)
         parts[i], column = (" "):rep(width), column + width
      else
         parts[i], column = character, (character == "\n" or character == "\r") and 0 or column + 1
      end
   end
   return table.concat(parts)
end

-- Formats a string by replacing its fields {}. Only fields with a position, a name or attributes
-- are supported.
function str.format(evaluator, text, args, named)
   local next_field = 0
   local function field(inside)
      local name, rest, specification = inside:match "^([%w_]*)([^:!]*)(.*)$"
      local value
      if name == "" then
         value, next_field = args[next_field + 1], next_field + 1
      elseif name:find "^%d+$" then
         value = args[tonumber(name) + 1]
      else
         value = named[name]
      end
      if value == nil then fail("format: there is no argument for {%s}", inside) end
      for key in rest:gmatch "%.([%w_]+)" do value = evaluator:attribute(value, key) end
      if rest:gsub("%.[%w_]+", "") ~= "" then
         fail("format: the field {%s} is not supported", inside)
      end
      if specification == "!r" then return values.repr(value) end
      local digits = specification:match "^:%.(%d%d?)f$"
      if digits and values.number(value) then
         return ("%." .. digits .. "f"):format(values.number(value))
      elseif specification == ":" or specification == "!s" or specification == "" then
         return values.text(value)
      end
      return fail("format: the specification %s is not supported", specification)
   end
   local parts, at = {}, 1
   while true do
      local found = text:find("[{}]", at)
      parts[#parts + 1] = text:sub(at, (found or #text + 1) - 1)
      if not found then break end
      local c = text:sub(found, found)
      if text:sub(found + 1, found + 1) == c then
         parts[#parts + 1], at = c, found + 2
      else
         local inside, after = text:match("^{([^{}]*)}()", found)
         if not inside then fail("format: a single %s", c) end
         parts[#parts + 1], at = field(inside), after
      end
   end
   return table.concat(parts)
end

-- Dicts and lists -------------------------------------------------------------------------------

local dict = M.dict

local function view(name, make)
   dict[name] = function(evaluator, value, args, named)
      take(name, args, named)
      local list = {}
      evaluator:charge(#value.keys)
      for i, key in ipairs(value.keys) do list[i] = make(key, values.get(value, key)) end
      list.name = "dict_" .. name
      return setmetatable(list, values.View)
   end
end

view("keys", function(key) return key end)
view("values", function(_, item) return item end)
view("items", function(key, item) return values.tuple {key, item} end)

function dict.get(_, value, args, named)
   local key, default = take("get", args, named, "key!", "default")
   local found = values.get(value, key)
   if found ~= nil then return found end
   return default == nil and values.none or default
end

function dict.copy(evaluator, value, args, named)
   take("copy", args, named)
   evaluator:charge(#value.keys)
   local copy = values.dict()
   for _, key in ipairs(value.keys) do values.put(copy, key, values.get(value, key)) end
   return copy
end

local list = M.list

function list.copy(evaluator, value, args, named)
   take("copy", args, named)
   evaluator:charge(#value)
   return values.list(table.move(value, 1, #value, 1, {}))
end

function list.count(_, value, args, named)
   local item, count = take("count", args, named, "value!"), 0
   for _, other in ipairs(value) do
      if values.equal(item, other) then count = count + 1 end
   end
   return count
end

function list.index(_, value, args, named)
   local item, first = take("index", args, named, "value!", "start")
   local from = integer_of("index", first, 0)
   if from < 0 then from = math.max(0, from + #value) end
   for i = from + 1, #value do
      if values.equal(item, value[i]) then return i - 1 end
   end
   return fail("%s is not in list", values.repr(item))
end

M.tuple = {count = list.count, index = list.index}
M.range = M.tuple

local changing = {
   dict = {"clear", "pop", "popitem", "setdefault", "update"},
   list = {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"},
}
for kind, names in pairs(changing) do
   for _, name in ipairs(names) do
      M[kind][name] = function()
         fail("access to attribute '%s' of '%s' object is unsafe: it would change the value", name,
            kind)
      end
   end
end

--- Returns a method of a value as a function that a template can call, or nil if the value has no
--- such method.
---@param value any
---@param name string
---@return table?
function M.find(value, name)
   local kind = values.kind(value)
   local method = M[kind] and type(M[kind]) == "table" and M[kind][name]
   if not method then return nil end
   return values.new_function(name, function(evaluator, args, named)
      return method(evaluator, value, args, named)
   end)
end

return M
