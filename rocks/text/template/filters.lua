-- filters.lua - the filters of templates. A filter is a function(evaluator, value, args, named).

local arguments = require "tlua.text.template.arguments"
local methods = require "tlua.text.template.methods"
local strings = require "tlua.text.template.strings"
local values = require "tlua.text.template.values"

local M = {}

local take, text_of, integer_of = arguments.take, arguments.text, arguments.integer
local optional, fail = arguments.optional, values.fail

local function truth(value) return value ~= nil and values.truth(value) end

-- Texts -----------------------------------------------------------------------------------------

local function of_text(name, change)
   M[name] = function(_, value, args, named)
      take(name, args, named)
      return change(values.text(value))
   end
end

of_text("upper", strings.upper)
of_text("lower", strings.lower)
of_text("capitalize", strings.capitalize)
of_text("string", function(text) return text end)
of_text("safe", function(text) return text end)

-- A word begins after white space, a hyphen or an opening bracket.
of_text("title", function(text)
   local parts, begun = {}, false
   for i, character in ipairs(strings.characters(text)) do
      if strings.is_space(character) or character:find "^[-({%[<]$" then
         parts[i], begun = character, false
      else
         parts[i] = begun and strings.lower(character) or strings.upper(character)
         begun = true
      end
   end
   return table.concat(parts)
end)

local entities <const> = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&#39;",
   ['"'] = "&#34;"}
of_text("escape", function(text) return (text:gsub("[&<>'\"]", entities)) end)
M.e, M.forceescape = M.escape, M.escape

function M.trim(_, value, args, named)
   local set = optional((take("trim", args, named, "chars")))
   return strings.strip(values.text(value), set and text_of("trim", set), true, true)
end

function M.replace(evaluator, value, args, named)
   local old, new, count = take("replace", args, named, "old!", "new!", "count")
   return methods.replace(evaluator, values.text(value), values.text(old), values.text(new),
      integer_of("replace", count, -1))
end

function M.center(evaluator, value, args, named)
   local width = take("center", args, named, "width")
   return methods.string.center(evaluator, values.text(value), {integer_of("center", width, 80)},
      {})
end

function M.indent(evaluator, value, args, named)
   local width, first, blank = take("indent", args, named, "width", "first", "blank")
   local indention = type(width) == "string" and width or nil
   if not indention then
      local count = math.max(0, integer_of("indent", width, 4))
      evaluator:check_size(count)
      indention = (" "):rep(count)
   end
   local lines = methods.string.splitlines(evaluator, text_of("indent", value) .. "\n", {}, {})
   evaluator:check_size(#value + #lines * #indention)
   for i = 2, #lines do
      if truth(blank) or lines[i] ~= "" then lines[i] = indention .. lines[i] end
   end
   return (truth(first) and indention or "") .. table.concat(lines, "\n")
end

function M.truncate(_, value, args, named)
   local length, kills, mark, leeway = take("truncate", args, named, "length", "killwords", "end",
      "leeway")
   length, leeway = integer_of("truncate", length, 255), integer_of("truncate", leeway, 5)
   mark = mark and text_of("truncate", mark) or "..."
   if M.length(nil, value, {}, {}) <= length + leeway then return value end
   local text = text_of("truncate", value)
   local keep = length - strings.length(mark)
   if keep < 0 then fail("truncate: expected a length of at least %d", strings.length(mark)) end
   local part = strings.sub(text, 1, keep)
   if truth(kills) then return part .. mark end
   return (part:match "^(.*) [^ ]*$" or part) .. mark
end

function M.format(evaluator, value, args, named)
   local operators = require "tlua.text.template.operators"
   local given = values.tuple(args)
   if next(named) then
      if #args > 0 then fail "format: arguments by position and by name" end
      given = values.dict()
      for name, item in pairs(named) do values.put(given, name, item) end
   end
   return operators.format(evaluator, values.text(value), given)
end

function M.wordcount(_, value, args, named)
   take("wordcount", args, named)
   local count = 0
   for _ in values.text(value):gmatch "[%w_\x80-\xFF]+" do count = count + 1 end
   return count
end

local function quoted(text, unsafe)
   return (text:gsub(unsafe, function(c) return ("%%%02X"):format(c:byte()) end))
end

function M.urlencode(evaluator, value, args, named)
   take("urlencode", args, named)
   local kind = values.kind(value)
   if kind ~= "dict" and kind ~= "list" and kind ~= "tuple" then
      return quoted(values.text(value), "[^%w%-_.~/]")
   end
   local parts = {}
   local list = kind == "dict" and methods.dict.items(evaluator, value, {}, {}) or value
   for item in values.iterate(list) do
      local pair = values.elements(item)
      if #pair ~= 2 then fail("expected 2 values to unpack, got %d", #pair) end
      for i = 1, 2 do
         pair[i] = quoted(values.text(pair[i]), "[^%w%-_.~]"):gsub("%%20", "+")
      end
      parts[#parts + 1] = pair[1] .. "=" .. pair[2]
   end
   return table.concat(parts, "&")
end

function M.striptags(_, value, args, named)
   take("striptags", args, named)
   local text = values.text(value):gsub("<!%-%-.-%-%->", ""):gsub("<.->", "")
   return table.concat(strings.words(text, -1), " ")
end

-- JSON ------------------------------------------------------------------------------------------

function M.tojson(evaluator, value, args, named)
   local ascii, indent, separators, sorts = take("tojson", args, named, "ensure_ascii", "indent",
      "separators", "sort_keys")
   local options = {ascii = truth(ascii), sorts = truth(sorts), comma = ", ", colon = ": "}
   indent = indent ~= nil and optional(indent)
   if type(indent) == "string" then
      options.indent = indent
   elseif indent ~= nil and indent ~= false then
      options.indent = (" "):rep(math.max(0, math.min(integer_of("tojson", indent), 1000)))
   end
   if options.indent then options.comma = "," end
   if separators ~= nil and optional(separators) then
      local pair = values.elements(separators)
      if #pair ~= 2 then fail("tojson: expected two separators, got %d", #pair) end
      options.comma, options.colon = text_of("tojson", pair[1]), text_of("tojson", pair[2])
   end
   local text = values.to_json(value, options)
   evaluator:check_size(#text)
   return text
end

-- Numbers ---------------------------------------------------------------------------------------

function M.abs(_, value, args, named)
   take("abs", args, named)
   local number = values.number(value)
   if not number then fail("bad operand type for abs(): '%s'", values.type_name(value)) end
   if math.type(number) == "integer" and number == math.mininteger then
      fail "an integer beyond 64 bits"
   end
   return math.abs(number)
end

-- Reads a number as Python's float() does.
local function read_float(text)
   text = strings.strip(text, nil, true, true)
   local plain = text:gsub("(%d)_(%d)", "%1%2"):gsub("(%d)_(%d)", "%1%2")
   local word = plain:lower():match "^([+-]?)inf$" or plain:lower():match "^([+-]?)infinity$"
   if word then return word == "-" and -math.huge or math.huge end
   if plain:lower():find "^[+-]?nan$" then return 0 / 0 end
   if plain:find "[xX_]" or not plain:find "^[+-]?[%d.]" then return nil end
   local number = tonumber((plain:gsub("^%+", "")))
   return number and number + 0.0
end

local function truncated(number)
   if number ~= number or number == math.huge or number == -math.huge then return nil end
   return math.tointeger(number < 0 and math.ceil(number) or math.floor(number))
end

function M.int(_, value, args, named)
   local default, base = take("int", args, named, "default", "base")
   if default == nil then default = 0 end
   local number = values.number(value)
   if number then return math.tointeger(number) or truncated(number) or default end
   if values.kind(value) == "undefined" then fail(value.message) end
   if type(value) ~= "string" then return default end
   base = integer_of("int", base, 10)
   local text = strings.strip(value, nil, true, true)
   local sign, digits = text:match "^([+-]?)([%w_]+)$"
   if digits then
      local prefix = ({[16] = "^0[xX]", [8] = "^0[oO]", [2] = "^0[bB]"})[base]
      if prefix then digits = digits:gsub(prefix, "") end
      digits = digits:gsub("(%w)_(%w)", "%1%2"):gsub("(%w)_(%w)", "%1%2")
      local whole = not digits:find "_" and base >= 2 and base <= 36 and tonumber(digits, base)
      if whole and (base ~= 10 or #digits < 19 or math.tointeger(tonumber(digits))) then
         return sign == "-" and -whole or whole
      elseif whole then
         fail("int: an integer beyond 64 bits: %s", digits)
      end
   end
   local float = read_float(value)
   return float and truncated(float) or default
end

function M.float(_, value, args, named)
   local default = take("float", args, named, "default")
   if default == nil then default = 0.0 end
   local number = values.number(value)
   if number then return number + 0.0 end
   if values.kind(value) == "undefined" then fail(value.message) end
   if type(value) ~= "string" then return default end
   return read_float(value) or default
end

function M.round(_, value, args, named)
   local precision, method = take("round", args, named, "precision", "method")
   precision, method = integer_of("round", precision, 0), method or "common"
   local number = values.number(value)
   if not number then
      fail("type %s doesn't define __round__ method", values.type_name(value))
   end
   if math.abs(precision) > 300 then fail "round: a precision beyond 300" end
   if method == "common" then
      if math.type(number) == "integer" and precision >= 0 then return number end
      if number ~= number or math.abs(number) == math.huge then return number end
      if precision >= 0 then
         return tonumber(("%." .. math.min(precision, 99) .. "f"):format(number)) + 0.0
      end
      local unit = 10.0 ^ -precision
      local quotient = number / unit
      local low = math.floor(quotient)
      local rest = quotient - low
      if rest > 0.5 or rest == 0.5 and low % 2 == 1 then low = low + 1 end
      local result = low * unit
      return math.type(number) == "integer" and math.tointeger(result) or result
   elseif method ~= "ceil" and method ~= "floor" then
      fail "method must be common, ceil or floor"
   end
   local scale = 10 ^ precision
   return math[method](number * scale) / scale + 0.0
end

-- Elements --------------------------------------------------------------------------------------

function M.default(_, value, args, named)
   local default, boolean = take("default", args, named, "default_value", "boolean")
   if values.kind(value) == "undefined" or truth(boolean) and not values.truth(value) then
      return default == nil and "" or default
   end
   return value
end
M.d = M.default

function M.length(_, value, args, named)
   take("length", args, named)
   return values.length(value)
      or fail("object of type '%s' has no len()", values.type_name(value))
end
M.count = M.length

function M.list(evaluator, value, args, named)
   take("list", args, named)
   local list = values.elements(value)
   evaluator:charge(#list)
   return values.list(list)
end

function M.items(evaluator, value, args, named)
   take("items", args, named)
   if values.kind(value) == "undefined" then return values.list {} end
   if values.kind(value) ~= "dict" then
      fail "Can only get item pairs from a mapping."
   end
   local next_item = values.iterate(methods.dict.items(evaluator, value, {}, {}))
   return values.generator(next_item)
end

function M.first(_, value, args, named)
   take("first", args, named)
   local item = values.iterate(value)()
   if item == nil then return values.undefined "No first item, sequence was empty." end
   return item
end

function M.last(_, value, args, named)
   take("last", args, named)
   if values.kind(value) == "generator" then
      fail "'generator' object is not reversible"
   end
   local list = values.elements(value)
   if #list == 0 then return values.undefined "No last item, sequence was empty." end
   return list[#list]
end

function M.reverse(evaluator, value, args, named)
   take("reverse", args, named)
   local list, new = type(value) == "string" and strings.characters(value)
      or values.elements(value), {}
   evaluator:charge(#list)
   for i = #list, 1, -1 do new[#new + 1] = list[i] end
   if type(value) == "string" then return table.concat(new) end
   return values.generator(values.iterate(values.list(new)))
end

-- Returns a function that reads an attribute of a value, such as "function.name" or the index 0. It
-- returns change(attribute), or the attribute if `change` is nil.
local function getter(evaluator, attribute, default, change)
   local parts = {}
   if type(attribute) == "string" then
      for part in (attribute .. "."):gmatch "([^.]*)%." do
         parts[#parts + 1] = part:find "^%d+$" and math.tointeger(tonumber(part)) or part
      end
   elseif attribute ~= nil and attribute ~= values.none then
      parts[1] = attribute
   end
   return function(value)
      for _, part in ipairs(parts) do
         value = evaluator:item(value, part)
         if default ~= nil and values.kind(value) == "undefined" then value = default end
      end
      return change and change(value) or value
   end
end

function M.join(evaluator, value, args, named)
   local separator, attribute = take("join", args, named, "d", "attribute")
   local read = getter(evaluator, attribute)
   local glue = separator == nil and "" or values.text(separator)
   local parts, size = {}, 0
   for item in values.iterate(value) do
      local text = values.text(read(item))
      size = size + #text + #glue
      evaluator:check_size(size)
      parts[#parts + 1] = text
   end
   return table.concat(parts, glue)
end

-- Returns the arguments after the first one.
local function rest_of(args) return table.move(args, 2, #args, 1, {}) end

-- Returns a generator that calls choose(element) for each element of a value, and yields the
-- results that are not nil.
local function choosing(evaluator, value, choose)
   local next_item = values.truth(value) and values.iterate(value) or function() return nil end
   return values.generator(function()
      while true do
         evaluator:charge(1)
         local item = next_item()
         if item == nil then return nil end
         local chosen = choose(item)
         if chosen ~= nil then return chosen end
      end
   end)
end

function M.map(evaluator, value, args, named)
   if #args == 0 then
      local attribute, default = take("map", args, named, "attribute!", "default")
      return choosing(evaluator, value, getter(evaluator, attribute, default))
   end
   local name, rest = text_of("map", args[1]), rest_of(args)
   return choosing(evaluator, value, function(item)
      return evaluator:filter(name, item, rest, named)
   end)
end

local function selection(name, by_attribute, wanted)
   M[name] = function(evaluator, value, args, named)
      local read = function(item) return item end
      if by_attribute then
         if args[1] == nil then fail("Missing parameter for attribute name") end
         read, args = getter(evaluator, args[1]), rest_of(args)
      end
      local test = args[1] ~= nil and text_of(name, args[1])
      local rest = rest_of(args)
      return choosing(evaluator, value, function(item)
         local read_value = read(item)
         local holds
         if test then
            holds = evaluator:test(test, read_value, rest, named)
         else
            holds = values.truth(read_value)
         end
         if holds == wanted then return item end
         return nil
      end)
   end
end

selection("select", false, true)
selection("reject", false, false)
selection("selectattr", true, true)
selection("rejectattr", true, false)

-- Order -----------------------------------------------------------------------------------------

local function without_case(value)
   return type(value) == "string" and strings.lower(value) or nil
end

local function folding(is_sensitive)
   return not truth(is_sensitive) and without_case or nil
end

-- Sorts a list of pairs {key, value} by their keys. Pairs with equal keys keep their order.
local function merge_sort(list, less)
   local n, width = #list, 1
   while width < n do
      local new = {}
      for from = 1, n, 2 * width do
         local middle, stop = math.min(from + width, n + 1), math.min(from + 2 * width, n + 1)
         local i, k = from, middle
         for at = from, stop - 1 do
            if k >= stop or i < middle and not less(list[k], list[i]) then
               new[at], i = list[i], i + 1
            else
               new[at], k = list[k], k + 1
            end
         end
      end
      list, width = new, width * 2
   end
   return list
end

local function sorted(evaluator, value, read, reverse)
   local list = {}
   for item in values.iterate(value) do list[#list + 1] = {read(item), item} end
   evaluator:charge(#list * 8)
   list = merge_sort(list, function(a, b)
      if reverse then return values.less(b[1], a[1]) end
      return values.less(a[1], b[1])
   end)
   return list
end

local function values_of(list)
   for i, entry in ipairs(list) do list[i] = entry[2] end
   return values.list(list)
end

function M.sort(evaluator, value, args, named)
   local reverse, sensitive, attribute = take("sort", args, named, "reverse", "case_sensitive",
      "attribute")
   local fold, readers = folding(sensitive), {}
   if type(attribute) == "string" then
      for part in attribute:gmatch "[^,]+" do
         readers[#readers + 1] = getter(evaluator, part, nil, fold)
      end
   else
      readers[1] = getter(evaluator, attribute, nil, fold)
   end
   return values_of(sorted(evaluator, value, function(item)
      local keys = values.list {}
      for i, read in ipairs(readers) do keys[i] = read(item) end
      return keys
   end, truth(reverse)))
end

function M.dictsort(evaluator, value, args, named)
   local sensitive, by, reverse = take("dictsort", args, named, "case_sensitive", "by", "reverse")
   if values.kind(value) ~= "dict" then
      fail("dictsort: expected a dict, got %s", values.repr(value))
   end
   if by ~= nil and by ~= "key" and by ~= "value" then
      fail "You can only sort by either \"key\" or \"value\""
   end
   local at, fold = by == "value" and 2 or 1, folding(sensitive)
   return values_of(sorted(evaluator, methods.dict.items(evaluator, value, {}, {}), function(pair)
      return fold and fold(pair[at]) or pair[at]
   end, truth(reverse)))
end

function M.unique(evaluator, value, args, named)
   values.iterate(value)
   local sensitive, attribute = take("unique", args, named, "case_sensitive", "attribute")
   local read, seen = getter(evaluator, attribute, nil, folding(sensitive)), values.dict()
   return choosing(evaluator, value, function(item)
      local key = read(item)
      if values.get(seen, key) ~= nil then return nil end
      values.put(seen, key, true)
      return item
   end)
end

function M.groupby(evaluator, value, args, named)
   local attribute, default, sensitive = take("groupby", args, named, "attribute!", "default",
      "case_sensitive")
   local read = getter(evaluator, attribute, default, folding(sensitive))
   local plain = getter(evaluator, attribute, default)
   local groups, key = values.list {}, nil
   for _, entry in ipairs(sorted(evaluator, value, read)) do
      if #groups == 0 or not values.equal(key, entry[1]) then
         key = entry[1]
         groups[#groups + 1] = values.tuple {plain(entry[2]), values.list {}}
      end
      local list = groups[#groups][2]
      list[#list + 1] = entry[2]
   end
   return groups
end

for name, sign in pairs {min = 1, max = -1} do
   M[name] = function(evaluator, value, args, named)
      local sensitive, attribute = take(name, args, named, "case_sensitive", "attribute")
      local read, best, best_key = getter(evaluator, attribute, nil, folding(sensitive)), nil, nil
      for item in values.iterate(value) do
         evaluator:charge(1)
         local key = read(item)
         if best == nil or sign == 1 and values.less(key, best_key)
            or sign == -1 and values.less(best_key, key) then
            best, best_key = item, key
         end
      end
      if best == nil then return values.undefined "No aggregated item, sequence was empty." end
      return best
   end
end

function M.sum(evaluator, value, args, named)
   local attribute, start = take("sum", args, named, "attribute", "start")
   local operators = require "tlua.text.template.operators"
   local read, total = getter(evaluator, attribute), start == nil and 0 or start
   for item in values.iterate(value) do
      evaluator:charge(1)
      total = operators.binary(evaluator, "+", total, read(item))
   end
   return total
end

function M.batch(evaluator, value, args, named)
   local count, fill = take("batch", args, named, "linecount!", "fill_with")
   count = integer_of("batch", count)
   if count < 1 then fail("batch: expected at least 1, got %d", count) end
   evaluator:check_size(fill and count or 0)
   local groups = {}
   for item in values.iterate(value) do
      if #groups == 0 or #groups[#groups] == count then groups[#groups + 1] = values.list {} end
      table.insert(groups[#groups], item)
   end
   local last = groups[#groups]
   while last and optional(fill) ~= nil and #last < count do last[#last + 1] = fill end
   return values.generator(values.iterate(values.list(groups)))
end

function M.slice(evaluator, value, args, named)
   local count, fill = take("slice", args, named, "slices!", "fill_with")
   count = integer_of("slice", count)
   if count < 1 then fail("slice: expected at least 1, got %d", count) end
   evaluator:check_size(count)
   local list, groups = values.elements(value), {}
   local each, more, at = #list // count, #list % count, 0
   for i = 1, count do
      local size = each + (i <= more and 1 or 0)
      groups[i] = values.list(table.move(list, at + 1, at + size, 1, {}))
      at = at + size
      if optional(fill) ~= nil and i > more then groups[i][size + 1] = fill end
   end
   return values.generator(values.iterate(values.list(groups)))
end

function M.attr(evaluator, value, args, named)
   local name = text_of("attr", (take("attr", args, named, "name!")))
   if values.kind(value) == "dict" then
      return methods.find(value, name)
         or values.undefined(("'dict object' has no attribute '%s'"):format(name))
   end
   return evaluator:attribute(value, name)
end

return M
