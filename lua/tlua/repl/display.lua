-- display.lua - formats values for people: tables with their contents, in a fixed order and within
-- limits, and strings in quotes.
local M = {}

-- The limits of the output. Dots replace any values beyond a limit.
local limits <const> = {
   depth = 5, -- depth of nested tables
   items = 100, -- number of entries of one table
   total = 300, -- number of entries in total
   length = 200, -- number of characters of a string inside a table
}

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local
   nil not or repeat return then true until while]]):gmatch("%a+") do
   keywords[word] = true
end

local escapes = {
   ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\",
}

local function escape(c)
   return escapes[c] or ("\\x%02X"):format(c:byte())
end

-- Quotes a string. Letters of any writing system stay readable. Control characters, and bytes of a
-- string that is not UTF-8, are escaped.
local function quote(text)
   local is_text = utf8.len(text)
   local dots = ""
   if (is_text or #text) > limits.length then
      text = text:sub(1, is_text and utf8.offset(text, limits.length + 1) - 1 or limits.length)
      dots = "..."
   end
   return '"' .. text:gsub(is_text and '[%c"\\]' or '[%c"\\\128-\255]', escape) .. '"' .. dots
end

-- Calls tostring safely: a value's own __tostring may fail.
local function plain(value)
   local ok, text = pcall(tostring, value)
   return ok and tostring(text) or ("<%s: its __tostring failed>"):format(type(value))
end

local function has_tostring(value)
   local meta = debug.getmetatable(value)
   return type(meta) == "table" and rawget(meta, "__tostring") ~= nil
end

-- Returns a summary such as "<float32 tensor 3x4>" for a tensor that would not fit on a line, or
-- nil.
local function summary(value)
   local ok, text = pcall(function()
      local shape = table.concat(value.shape, "x")
      return ("<%s tensor%s%s>"):format(value.dtype, shape == "" and "" or " " .. shape,
         value.is_cpu and "" or " on " .. value.device)
   end)
   return ok and text or nil
end

-- Formats userdata, such as a tensor or a device, inside a table on one line.
local function brief(value)
   local ok, size = pcall(function() return value:numel() end)
   local text = (not ok or size <= 8) and plain(value) or nil
   if text and not text:find("\n") then return text end
   return summary(value) or text:match("^[^\n]*") .. " ..."
end

local function format_key(key)
   if type(key) ~= "string" then return "[" .. plain(key) .. "]" end
   if key:find("^[%a_][%w_]*$") and not keywords[key] then return key end
   return "[" .. quote(key) .. "]"
end

local ranks <const> = {number = 1, string = 2, boolean = 3}

local function key_order(a, b)
   local rank_a, rank_b = ranks[type(a)] or 4, ranks[type(b)] or 4
   if rank_a ~= rank_b then return rank_a < rank_b end
   if rank_a <= 2 then return a < b end
   return plain(a) < plain(b)
end

-- Returns the length of the list at the beginning of a table, and the keys of all other fields in
-- order.
local function keys_of(value)
   local n = 0
   while rawget(value, n + 1) ~= nil do n = n + 1 end
   local keys = {}
   for key in next, value do
      if not (math.type(key) == "integer" and 1 <= key and key <= n) then
         keys[#keys + 1] = key
      end
   end
   table.sort(keys, key_order)
   return n, keys
end

-- Arranges list elements in lines, as many in each line as fit.
local function fill(items, width)
   local lines = {}
   for _, item in ipairs(items) do
      local line = lines[#lines]
      if line and #line + 2 + #item < width then
         lines[#lines] = line .. ", " .. item
      else
         lines[#lines + 1] = item
      end
   end
   return lines
end

local function is_short(items)
   for _, item in ipairs(items) do
      if #item > 24 or item:find("\n") then return false end
   end
   return true
end

-- Formats `{...}` on one line if it fits, otherwise on indented lines. The first `n` items are list
-- elements.
local function braces(state, name, items, n, indent)
   local flat = name .. "{" .. table.concat(items, ", ") .. "}"
   if #flat + indent <= state.width and not flat:find("\n") then return flat end
   local lines = table.move(items, 1, n, 1, {})
   if is_short(lines) then lines = fill(lines, state.width - indent - 3) end
   table.move(items, n + 1, #items, #lines + 1, lines)
   local margin = "\n" .. (" "):rep(indent)
   local inner = margin .. "   "
   return name .. "{" .. inner .. table.concat(lines, "," .. inner) .. margin .. "}"
end

local format

local function format_table(state, value, depth, indent)
   if state.open[value] then return "<cycle>" end
   if next(value) == nil then return "{}" end
   if depth > limits.depth or state.left <= 0 then return "{...}" end
   state.open[value] = true
   local n, keys = keys_of(value)
   local items = {}
   local function add(key, prefix)
      if #items == limits.items or state.left == 0 then return false end
      state.left = state.left - 1
      items[#items + 1] = prefix .. format(state, rawget(value, key), depth + 1, indent + 3)
      return true
   end
   for i = 1, n do
      if not add(i, "") then break end
   end
   local listed = #items
   for _, key in ipairs(keys) do
      if not add(key, format_key(key) .. " = ") then break end
   end
   local rest = n + #keys - #items
   if rest > 0 then items[#items + 1] = ("... (%d more)"):format(rest) end
   state.open[value] = nil
   local meta = debug.getmetatable(value)
   local name = type(meta) == "table" and rawget(meta, "__name")
   return braces(state, type(name) == "string" and name .. " " or "", items, listed, indent)
end

-- Formats a value inside a table.
function format(state, value, depth, indent)
   local kind = type(value)
   if kind == "string" then return quote(value) end
   if kind == "userdata" then return brief(value) end
   -- tostring would add an address, which says nothing
   if kind == "function" then return "<function>" end
   if kind ~= "table" then return plain(value) end
   if has_tostring(value) then
      return (plain(value):gsub("\n", "\n" .. (" "):rep(indent)))
   end
   return format_table(state, value, depth, indent)
end

--- Returns the text for a single value; strings and tensors look as print shows them.
---@param options {width: integer?}
---@param value any
---@return string
function M.value(options, value)
   if type(value) == "string" then return value end
   if type(value) ~= "table" or has_tostring(value) then return plain(value) end
   local width = options.width or 0
   local state = {width = width > 20 and width or 80, left = limits.total, open = {}}
   return format_table(state, value, 1, 0)
end

--- Returns the text for several values: one line, as print does, if each fits on a line.
---@param options {width: integer?}
---@param ... any
---@return string
function M.values(options, ...)
   local texts = table.pack(...)
   local separator = "\t"
   for i = 1, texts.n do
      texts[i] = M.value(options, texts[i])
      if texts[i]:find("\n") then separator = "\n" end
   end
   return table.concat(texts, separator)
end

return M
