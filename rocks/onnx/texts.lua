-- texts.lua - operators on tensors of strings.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local M = {}

local function check(node, x)
   if not values.is_strings(x) then node:fail("expected strings, got %s", values.describe(x)) end
   return x
end

-- Returns a tensor with the shape of x that contains the row-major positions of x's elements, from
-- 1 on.
local function positions(x)
   local n = support.product(x.shape)
   return torch.arange(1, n + 1, {dtype = "int64"}):reshape(x.shape)
end

-- Returns the strings at the positions in `index`.
local function pick(x, index)
   local list = {}
   for i, at in ipairs(index:reshape(-1):tolist()) do list[i] = x[at] end
   return values.strings(list, support.shape(index))
end

-- Broadcasts two tensors of strings. Returns both and their shape.
local function broadcast(a, b)
   local i, j = table.unpack(torch.broadcast_tensors(positions(a), positions(b)))
   return pick(a, i), pick(b, j)
end

function M.StringConcat(node, a, b)
   local x, y = broadcast(check(node, a), check(node, b))
   for i = 1, #x do x[i] = x[i] .. y[i] end
   return x
end

function M._equal(node, a, b)
   local x, y = broadcast(check(node, a), check(node, b))
   local list = {}
   for i = 1, #x do list[i] = x[i] == y[i] end
   if #list == 0 then return torch.empty(x.shape, {dtype = "bool"}) end
   return torch.tensor(list):reshape(x.shape)
end

function M._where(node, condition, a, b)
   local all = values.strings({}, {#a + #b})
   table.move(a, 1, #a, 1, all)
   table.move(check(node, b), 1, #b, #a + 1, all)
   return pick(all, torch.where(condition, positions(a), positions(b) + #a))
end

function M._gather(node, x, index)
   local dim = node:dim(node:int("axis", 0), #x.shape)
   local places = support.from_one(node, index, x.shape[dim])
   local all = positions(x)
   local shape = {}
   table.move(x.shape, 1, dim - 1, 1, shape)
   table.move(index.shape, 1, index:dim(), #shape + 1, shape)
   table.move(x.shape, dim + 1, #x.shape, #shape + 1, shape)
   return pick(x, all:index_select(dim, places:reshape(-1)):reshape(shape))
end

function M._concat(node, ...)
   local list, all, dim = {}, values.strings({}, {}), nil
   for i, x in ipairs {...} do
      check(node, x)
      dim = dim or node:dim(node:need("int", "axis"), #x.shape)
      list[i] = positions(x) + #all
      table.move(x, 1, #x, #all + 1, all)
   end
   return pick(all, torch.cat(list, dim))
end

function M._slice(node)
   node:fail "slices of strings are not supported"
end

function M.StringSplit(node, x)
   check(node, x)
   local delimiter, most = node:text("delimiter", ""), node:int("maxsplit", -1)
   if most < 0 then most = math.maxinteger end
   local rows, widest, counts = {}, 0, {}
   for i, text in ipairs(x) do
      local row = {}
      if delimiter == "" then
         local rest = text:gsub("^%s+", "")
         while rest ~= "" and #row < most do
            local word, after = rest:match "^(%S+)%s*(.*)$"
            row[#row + 1], rest = word, after
         end
         if rest ~= "" then row[#row + 1] = rest end
      else
         local rest = text
         while #row < most do
            local first, last = rest:find(delimiter, 1, true)
            if not first then break end
            row[#row + 1], rest = rest:sub(1, first - 1), rest:sub(last + 1)
         end
         row[#row + 1] = rest
      end
      rows[i], counts[i] = row, #row
      widest = math.max(widest, #row)
   end
   local list = {}
   for _, row in ipairs(rows) do
      for k = 1, widest do list[#list + 1] = row[k] or "" end
   end
   local shape = table.move(x.shape, 1, #x.shape, 1, {})
   shape[#shape + 1] = widest
   return values.strings(list, shape), support.integers(counts):reshape(x.shape)
end

function M.StringNormalizer(node, x)
   check(node, x)
   local action = node:text("case_change_action", "NONE")
   local sensitive = node:int("is_case_sensitive", 0) ~= 0
   local function change(text)
      return action == "LOWER" and text:lower() or action == "UPPER" and text:upper() or text
   end
   local stops = {}
   for _, word in ipairs(node:texts("stopwords", {})) do
      stops[sensitive and word or word:lower()] = true
   end
   local kept = {}
   for _, text in ipairs(x) do
      if not stops[sensitive and text or text:lower()] then kept[#kept + 1] = change(text) end
   end
   if #kept == 0 then kept[1] = "" end
   return values.strings(kept, #x.shape == 2 and {1, #kept} or {#kept})
end

-- Converts a set of a regular expression, such as [\w.], to a set of a Lua pattern. Returns nil if
-- this is not possible.
local function as_set(text)
   local known = true
   local set = text:gsub("%%", "%%%%"):gsub("\\(.)", function(c)
      if c == "d" or c == "s" then return "%" .. c end
      if c == "w" then return "%w_" end
      known = known and not c:find "%w"
      return "%" .. c
   end)
   return known and set or nil
end

-- Converts a regular expression of RE2 to a Lua pattern, which matches bytes instead of characters.
-- Returns nil for groups, alternatives, repetition counts and unknown escapes.
local function as_pattern(node, regex)
   local out, i, repeated = {"^"}, 1, false
   local classes = {d = "%d", w = "[%w_]", s = "%s", D = "%D", W = "[^%w_]", S = "%S"}
   while i <= #regex do
      local c = regex:sub(i, i)
      -- A second ? asks for as few repetitions as possible. This makes no difference here, because
      -- the whole text must match.
      local new = not (c == "?" and repeated) and c or ""
      repeated = not repeated and c:find "^[*+?]$" ~= nil
      if c == "\\" then
         i = i + 1
         local escaped = regex:sub(i, i)
         if not classes[escaped] and escaped:find "^%w?$" then return nil end
         new = classes[escaped] or "%" .. escaped
      elseif c:find "[(){}|]" then
         return nil
      elseif c == "[" then
         local last = i + (regex:sub(i + 1, i + 1) == "^" and 2 or 1)
         repeat
            last = last + (regex:sub(last, last) == "\\" and 2 or 1)
         until last > #regex or regex:sub(last, last) == "]"
         if last > #regex then node:fail("attribute pattern: %q is not closed", regex) end
         new = as_set(regex:sub(i, last))
         if not new then return nil end
         i = last
      elseif c == "." then
         new = "[^\n]"
      elseif c == "%" or c == "-" then
         new = "%" .. c
      elseif c == "^" and i == 1 or c == "$" and i == #regex then
         new = ""
      end
      out[#out + 1] = new
      i = i + 1
   end
   out[#out + 1] = "$"
   return table.concat(out)
end

function M.RegexFullMatch(node, x)
   check(node, x)
   local regex = node:need("text", "pattern")
   local pattern = as_pattern(node, regex)
      or node:fail("attribute pattern: not supported: groups, alternatives, counts, in %q",
         regex)
   local list = {}
   for i, text in ipairs(x) do list[i] = text:find(pattern) ~= nil end
   if #list == 0 then return torch.empty(x.shape, {dtype = "bool"}) end
   return torch.tensor(list):reshape(x.shape)
end

-- Reads the attributes of TfIdfVectorizer, which counts n-grams. The pool lists all n-grams, first
-- those of one item, then those of two items, and so on.
local function read_grams(node)
   local pool = node:texts "pool_strings" or node:need("ints", "pool_int64s")
   local starts = node:need("ints", "ngram_counts")
   local shortest = node:need("int", "min_gram_length")
   local longest = node:need("int", "max_gram_length")
   local grams, number = {}, 0
   for n, first in ipairs(starts) do
      local last = starts[n + 1] or #pool
      for at = first + 1, last - n + 1, n do
         number = number + 1
         local key = table.concat(pool, "\0", at, at + n - 1)
         if n >= shortest and n <= longest then grams[key] = number end
      end
   end
   return grams, shortest, longest
end

function M.TfIdfVectorizer(node, x)
   local grams, shortest, longest = read_grams(node)
   local indexes, weights = node:need("ints", "ngram_indexes"), node:floats "weights"
   local mode, skips = node:need("text", "mode"), node:need("int", "max_skip_count")
   local width = 0
   for _, index in ipairs(indexes) do width = math.max(width, index + 1) end
   local shape = x.shape
   local rows = #shape == 2 and shape[1] or 1
   local items = values.is_strings(x) and x or x:reshape(-1):tolist()
   local n = #items // math.max(rows, 1)
   local counts, weight_of = support.fill(rows * width, 0.0), support.fill(width, 1.0)
   for i, index in ipairs(indexes) do weight_of[index + 1] = weights and weights[i] or 1.0 end
   for row = 0, rows - 1 do
      for length = shortest, longest do
         for skip = 1, length == 1 and 1 or skips + 1 do
            for first = 1, n - (length - 1) * skip do
               local words = {}
               for k = 1, length do words[k] = items[row * n + first + (k - 1) * skip] end
               local number = grams[table.concat(words, "\0")]
               if number then
                  local at = row * width + indexes[number] + 1
                  counts[at] = counts[at] + 1
               end
            end
         end
      end
   end
   for i, count in ipairs(counts) do
      local weight = weight_of[(i - 1) % width + 1]
      if mode == "IDF" then
         counts[i] = count > 0 and weight or 0
      elseif mode == "TFIDF" then
         counts[i] = count * weight
      elseif mode ~= "TF" then
         node:fail("attribute mode: %q is unknown", mode)
      end
   end
   return torch.tensor(counts):reshape(#shape == 2 and {rows, width} or {width})
end

return M
