-- literals.lua - translates constants, lists and tables.

local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local prec = Porter.prec

local M = {}

local escapes = {
   ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ["\\"] = "\\\\", ["\a"] = "\\a", ["\b"] = "\\b",
   ["\f"] = "\\f", ["\v"] = "\\v",
}

--- Returns a text as a Lua string, in the kind of quotes that needs fewer escapes.
---@param text string
---@return string
function M.quote(text)
   local quote = text:find('"', 1, true) and not text:find("'", 1, true) and "'" or '"'
   return quote .. text:gsub('[%c\\"]', function(c)
      if c == '"' then return quote == '"' and '\\"' or '"' end
      return escapes[c] or ("\\x%02x"):format(c:byte())
   end) .. quote
end

local function string(node)
   local lines = select(2, node.text:gsub("\n", ""))
   if node.last > node.line and lines > 0 and not node.text:find("]]", 1, true)
         and node.text:sub(-1) ~= "]" and not node.text:find "[^%C\n\t]" then
      return "[[\n" .. node.text .. "]]"
   end
   return M.quote(node.text)
end

local function number(P, node)
   local text = node.text
   if text == "inf" then return "math.huge" end
   if node.kind == "int" and not math.tointeger(tonumber(text)) then
      P:note(node, "an integer of more than 64 bits")
   end
   return text
end

--- Translates a constant. The caller adds parentheses if a string literal is called or indexed.
function M.constant(P, node)
   local kind = node.kind
   if kind == "str" or kind == "bytes" then
      return {t = string(node), p = prec.atom, ty = types.str}
   elseif kind == "int" or kind == "float" then
      return {t = number(P, node), p = prec.atom, ty = kind == "int" and types.int or types.float}
   elseif kind == "bool" then
      return {t = node.text == "True" and "true" or "false", p = prec.atom, ty = types.bool}
   elseif kind == "none" then
      return {t = "nil", p = prec.atom, ty = types.none}
   elseif kind == "ellipsis" then
      return {t = '"..."', p = prec.atom}
   end
   P:note(node, "no such numbers: " .. node.text)
   return {t = "nil", p = prec.atom}
end

-- Returns whether each item is on a separate line in the source.
local function is_column(nodes)
   if #nodes < 2 then return false end
   for i = 2, #nodes do
      if nodes[i].line <= nodes[i - 1].last then return false end
   end
   return true
end

-- Returns the comments above an item of a list, and the comment behind it on its line.
local function comments_around(P, first, last, next_line)
   local above, behind = {}, nil
   for line = first, last do
      local comment = P.comments[line]
      if comment and comment.own then above[#above + 1] = P.comment(comment) end
   end
   local comment = P.comments[next_line]
   if comment and not comment.own then behind = " " .. P.comment(comment) end
   return above, behind
end

--- Formats the items of a list, a table or a call on one line. Each item gets a separate line if
--- one line would be too long, or if the source has a line for each item and comments between the
--- items.
---@param nodes table[]  the items' nodes, for their lines
---@param texts fun(i: integer): string  the i-th item's text
---@param before integer  columns taken before the items
---@param around? {first: integer, last: integer}  first and last source line of the whole list
---@return string
function M.layout(P, nodes, texts, before, around)
   local function one_line()
      local list = {}
      for i = 1, #nodes do list[i] = texts(i) end
      return table.concat(list, ", ")
   end
   local commented = false
   if around then
      for line = around.first, around.last - 1 do
         local comment = P.comments[line]
         if comment and line >= around.first and nodes[1] and line < nodes[#nodes].last then
            commented = true
         end
      end
   end
   local text = one_line()
   local longest = 0
   for line in text:gmatch "[^\n]+" do longest = math.max(longest, #line) end
   local fits = 3 * P.level + before + longest <= Porter.width - 2 and not text:find "\n"
   local column = commented or is_column(nodes) and #nodes > 2
   if #nodes == 0 or fits and not column then return text end
   local single = #nodes == 1 and not commented
   if single and (nodes[1]._ == "Constant" or text:find "\n") then return text end
   P.level = P.level + 1
   local lines, line_before = {}, around and around.first or nodes[1].line
   for i, node in ipairs(nodes) do
      local next_start = nodes[i + 1] and nodes[i + 1].line
      local behind_line = next_start ~= node.last and node.last or 0
      local above, behind = comments_around(P, line_before, node.line - 1, behind_line)
      for _, comment in ipairs(above) do lines[#lines + 1] = P:indent() .. comment end
      lines[#lines + 1] = P:indent() .. texts(i) .. (i < #nodes and "," or "") .. (behind or "")
      line_before = node.last + 1
   end
   if around then
      local above = comments_around(P, line_before, around.last - 1, 0)
      for _, comment in ipairs(above) do lines[#lines + 1] = P:indent() .. comment end
   end
   P.level = P.level - 1
   return "\n" .. table.concat(lines, "\n") .. "\n" .. P:indent()
end

--- Returns the texts of items, separated by commas. Adds a note about an item with a `*` that is
--- not the last one.
function M.items(P, nodes, around)
   return M.layout(P, nodes, function(i)
      local node = nodes[i]
      if node._ == "Starred" and i < #nodes then
         P:note(node, "`*` before other items: Lua's table.unpack gives all values only at the end")
      end
      local e = P:expr(node)
      local multi = e.ty and e.ty.k == "tuple" and e.ty.multi
      if multi then return "{" .. e.t .. "}" end
      return e.t
   end, 4, around)
end

--- Translates a list or a tuple.
function M.list(P, node, kind)
   if #node.elts == 2 and node.elts[1]._ == "Starred" and node.elts[2]._ == "Starred" then
      return {t = ("%s(%s, %s)"):format(P:py "concat", P:emit(node.elts[1].value),
         P:emit(node.elts[2].value)), p = prec.prefix, ty = types.list}
   end
   local text = M.items(P, node.elts, {first = node.line, last = node.last})
   local es = {}
   local joined
   for i, item in ipairs(node.elts) do
      es[i] = item.ty or types.none
      joined = types.join(joined, item.ty)
      if item.ty and item.ty.k == "none" then
         P:note(item, "None within a list: a Lua table ends at nil")
      end
   end
   local ty = kind == "tuple" and types.tuple_of(es) or types.list_of(joined)
   return {t = "{" .. text .. "}", p = prec.atom, ty = ty}
end

--- Returns a key as Lua writes it before `=`.
function M.key(P, node)
   if node.kind == "str" and node.text:find "^[%a_][%w_]*$"
         and load("local t = {" .. node.text .. " = 1}") then
      return node.text
   end
   return "[" .. P:emit(node) .. "]"
end

function M.dict(P, node)
   local values, unpacked = {}, false
   for i, value in ipairs(node.values) do
      values[i] = value
      unpacked = unpacked or not node.keys[i]
   end
   if unpacked then
      local parts = {}
      for i, value in ipairs(values) do
         parts[i] = node.keys[i] and ("{%s = %s}"):format(M.key(P, node.keys[i]), P:emit(value))
            or P:emit(value)
      end
      return {t = P:py "merge" .. "(" .. table.concat(parts, ", ") .. ")", p = prec.prefix,
         ty = types.dict}
   end
   local ty
   local text = M.layout(P, values, function(i)
      local value, e = P:emit(values[i])
      ty = types.join(ty, e.ty)
      return M.key(P, node.keys[i]) .. " = " .. value
   end, 4, {first = node.line, last = node.last})
   return {t = "{" .. text .. "}", p = prec.atom, ty = types.dict_of(ty)}
end

return M
