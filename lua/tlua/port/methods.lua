-- methods.lua - translates methods of Python's strings, lists, dicts and files, and methods of
-- tensors that differ in tlua.

local format = require "tlua.port.format"
local subscripts = require "tlua.port.subscripts"
local types = require "tlua.port.types"
local Porter = require "tlua.port.Porter"

local is = types.is
local prec = Porter.prec

local M = {}

local function prefix(text, ty) return {t = text, p = prec.prefix, ty = ty} end

local function arguments(P, node, first)
   local list = {}
   for i = first or 1, #node.args do list[#list + 1] = (P:emit(node.args[i])) end
   return table.concat(list, ", ")
end

-- Strings ---------------------------------------------------------------------------------------

local str = {}

local function by_runtime(name, ty)
   return function(P, node, object)
      local more = arguments(P, node)
      return prefix(("%s(%s%s)"):format(P:py(name), object, more ~= "" and ", " .. more or ""), ty)
   end
end

for _, name in ipairs {"strip", "lstrip", "rstrip", "replace", "capitalize", "title", "zfill",
   "center", "ljust", "rjust"} do
   str[name] = by_runtime(name, types.str)
end
for _, name in ipairs {"isdigit", "isalpha", "isspace", "isupper", "islower"} do
   str[name] = by_runtime(name, types.bool)
end
str.split = by_runtime("split", types.list_of(types.str))
str.rsplit = by_runtime("rsplit", types.list_of(types.str))
str.splitlines = by_runtime("splitlines", types.list_of(types.str))
str.find, str.index = by_runtime("find", types.int), by_runtime("find", types.int)
str.count = by_runtime("count_text", types.int)

function str.lower(_, _, object) return prefix(object .. ":lower()", types.str) end
function str.upper(_, _, object) return prefix(object .. ":upper()", types.str) end
function str.encode(_, _, object) return prefix(object, types.str) end
str.decode = str.encode

function str.join(P, node, object, e)
   local separator = object:match "^%((.*)%)$" or object
   local list, inner = P:emit(node.args[1])
   if not is(inner.ty, "list") or inner.ty.e and not is(inner.ty.e, "str int float num") then
      list = ("%s(tostring, %s)"):format(P:py "map", list)
   end
   separator = e.p == prec.atom and e.t or separator
   return prefix(("table.concat(%s%s)"):format(list, separator ~= '""' and ", " .. separator or ""),
      types.str)
end

function str.startswith(P, node, object)
   local text, e = P:emit(node.args[1])
   if node.args[1].kind == "str" then
      return {t = ("%s:sub(1, %d) == %s"):format(object, #node.args[1].text, text),
         p = prec.compare, ty = types.bool}
   end
   return prefix(("%s(%s, %s)"):format(P:py "startswith", object, e.t), types.bool)
end

function str.endswith(P, node, object)
   local text, e = P:emit(node.args[1])
   if node.args[1].kind == "str" then
      return {t = ("%s:sub(-%d) == %s"):format(object, #node.args[1].text, text),
         p = prec.compare, ty = types.bool}
   end
   return prefix(("%s(%s, %s)"):format(P:py "endswith", object, e.t), types.bool)
end

function str.format(P, node, object)
   P:note(node, "format of a string that is not a literal: py.formatted fills its fields")
   local list, named = {object}, {}
   for _, keyword in ipairs(node.keywords) do
      local value = keyword.value
      if keyword.arg then
         named[#named + 1] = ("%s = %s"):format(keyword.arg, (P:emit(value)))
      else -- for **self.__dict__, the object itself is passed, because it has the fields
         list[2] = P:emit(value.attr == "__dict__" and value.value or value)
      end
   end
   if #named > 0 then list[2] = ("{%s}"):format(table.concat(named, ", ")) end
   local name = list[2] and "formatted_by" or "formatted"
   for _, argument in ipairs(node.args) do list[#list + 1] = (P:emit(argument)) end
   return prefix(("%s(%s)"):format(P:py(name), table.concat(list, ", ")), types.str)
end

--- Translates `"...".format(...)` for a literal string.
function M.format(P, node) return format.method(P, node) end

-- Lists -------------------------------------------------------------------------------------------

local list = {}

local function item(P, node)
   local e = P:expr(node)
   if e.ty and e.ty.multi then return "{" .. e.t .. "}", e end
   return e.t, e
end

function M.append(P, node, object)
   return prefix(("%s:append(%s)"):format(object, P:emit(node.args[1])), types.none)
end

function list.append(P, node, object, e)
   local text, value = item(P, node.args[1])
   if e.ty and not e.ty.limited then
      P:refine(node.func.value, types.list_of(value.ty and not value.ty.multi and value.ty or nil))
   end
   if e.ty and e.ty.limited then
      return prefix(("%s(%s, %s)"):format(P:py "append", object, text), types.none)
   end
   return prefix(("table.insert(%s, %s)"):format(object, text), types.none)
end

function list.appendleft(P, node, object, e)
   if e.ty and e.ty.limited then
      return prefix(("%s(%s, %s)"):format(P:py "appendleft", object, (item(P, node.args[1]))),
         types.none)
   end
   return prefix(("table.insert(%s, 1, %s)"):format(object, (item(P, node.args[1]))), types.none)
end

-- Translates an argument of a list's method that is the position of an item to a position that
-- counts from 1.
local function place(P, object, node)
   local value = subscripts.literal(node)
   if not value or value >= 0 then return (subscripts.moved(P, node, 1)) end
   return value == -1 and "#" .. object or ("#%s - %d"):format(object, -value - 1)
end

function list.insert(P, node, object)
   return prefix(("table.insert(%s, %s, %s)"):format(object, place(P, object, node.args[1]),
      (item(P, node.args[2]))), types.none)
end

function list.pop(P, node, object, e)
   local at = node.args[1]
   local value = at and subscripts.literal(at)
   local text = ""
   if at and value ~= -1 then text = ", " .. place(P, object, at) end
   return prefix(("table.remove(%s%s)"):format(object, text), e.ty and e.ty.e)
end

function list.popleft(_, _, object, e)
   return prefix(("table.remove(%s, 1)"):format(object), e.ty and e.ty.e)
end

list.extend = by_runtime("extend", types.none)
list.remove = by_runtime("remove", types.none)
list.count = by_runtime("count_items", types.int)
list.clear = by_runtime("clear", types.none)
list.copy = by_runtime("copy", types.list)
list.reverse = by_runtime("reverse", types.none)

function list.index(P, node, object)
   return prefix(("%s(%s, %s)"):format(P:py "index", object, arguments(P, node)), types.int)
end

function list.sort(P, node, object)
   local options = {}
   for _, keyword in ipairs(node.keywords) do
      options[#options + 1] = keyword.arg .. " = " .. P:emit(keyword.value)
   end
   if #options == 0 then return prefix(("table.sort(%s)"):format(object), types.none) end
   return prefix(("%s(%s, {%s})"):format(P:py "sort", object, table.concat(options, ", ")),
      types.none)
end

-- Dicts and sets ----------------------------------------------------------------------------------

local dict = {}

function dict.get(P, node, object, e)
   local name = node.args[1]
   local text
   if name.kind == "str" and name.text:find "^[%a_][%w_]*$" then
      text = P:field(object, name.text)
   else
      text = ("%s[%s]"):format(object, P:emit(name))
   end
   if not node.args[2] then return prefix(text, e.ty and e.ty.v) end
   local default = P:expr(node.args[2])
   local ty = types.join(default.ty, e.ty and e.ty.v)
   if types.never_false(default.ty) and not is(e.ty and e.ty.v, "bool") then
      return {t = ("%s or %s"):format(text, P:text(default, "or")), p = prec["or"], ty = ty}
   end
   return prefix(("%s(%s, %s)"):format(P:py "default", text, default.t), ty)
end

dict.update = by_runtime("update", types.none)
dict.keys = by_runtime("keys", types.list_of(types.str))
dict.values = by_runtime("values", types.list)
dict.items = by_runtime("items", types.list_of(types.tuple))
dict.copy = by_runtime("copy", types.dict)
dict.clear = by_runtime("clear", types.none)
dict.setdefault = by_runtime("setdefault")
dict.pop = by_runtime("pop")
dict.most_common = by_runtime("most_common", types.list_of(types.tuple))

local set = {update = by_runtime("set_update", types.none), copy = dict.copy, clear = dict.clear}

function set.add(P, node, object)
   return {t = ("%s[%s] = true"):format(object, P:emit(node.args[1])), p = prec.prefix,
      statement = true, ty = types.none}
end

function set.discard(P, node, object)
   return {t = ("%s[%s] = nil"):format(object, P:emit(node.args[1])), p = prec.prefix,
      statement = true, ty = types.none}
end
set.remove = set.discard

-- Files -------------------------------------------------------------------------------------------

local file = {}

function file.read(_, node, object)
   return prefix(object .. ':read "a"', types.str, node)
end
function file.readline(_, _, object) return prefix(object .. ':read "L"', types.str) end
function file.readlines(P, _, object)
   return prefix(("%s(%s:lines \"L\")"):format(P:py "collect", object), types.list_of(types.str))
end
function file.write(P, node, object)
   return prefix(("%s:write(%s)"):format(object, arguments(P, node)), types.none)
end
function file.close(_, _, object) return prefix(object .. ":close()", types.none) end
function file.flush(_, _, object) return prefix(object .. ":flush()", types.none) end

-- Tensors -----------------------------------------------------------------------------------------

local tensor = {}

-- Returns the object itself, since NumPy arrays are tensors in tlua.
function tensor.numpy(_, _, object, e) return {t = object, p = prec.prefix, ty = e.ty} end

-- Translates `x.add_(-lr, g)`, an argument order that PyTorch has deprecated.
for _, name in ipairs {"add", "add_", "sub", "sub_"} do
   tensor[name] = function(P, node, object)
      if #node.args ~= 2 then return nil end
      local alpha, other = P:expr(node.args[1]), P:expr(node.args[2])
      return prefix(("%s:%s(%s, {alpha = %s})"):format(object, name, other.t, alpha.t),
         types.tensor)
   end
end
for _, name in ipairs {"addcmul_", "addcdiv_"} do
   tensor[name] = function(P, node, object)
      if #node.args ~= 3 then return nil end
      local value, a, b = P:expr(node.args[1]), P:expr(node.args[2]), P:expr(node.args[3])
      return prefix(("%s:%s(%s, %s, {value = %s})"):format(object, name, a.t, b.t, value.t),
         types.tensor)
   end
end

function tensor.astype(P, node, object)
   return prefix(("%s:to(%s)"):format(object, arguments(P, node)), types.tensor)
end

local by_kind = {str = str, list = list, tuple = list, dict = dict, set = set, file = file,
   tensor = tensor}

-- Maps methods that only one type of Python has to this type, for objects whose type is unknown.
local only = {
   append = list, appendleft = list, popleft = list, extend = list,
   startswith = str, endswith = str, splitlines = str, join = str, strip = str,
   lower = str, upper = str, isdigit = str, readlines = file, readline = file,
   setdefault = dict, numpy = tensor, astype = tensor,
}

--- Translates a method of a value of Python's own types; returns nil for other objects.
---@param P port.Porter
---@param node table  the call
---@param object string  the object's text
---@param e table  the object's translation
---@param name string
---@return table?
function M.call(P, node, object, e, name)
   local ty = e.ty
   local handlers = ty and by_kind[ty.k]
   if handlers and handlers[name] then return handlers[name](P, node, object, e) end
   if (not ty or ty.k == "mixed" or ty.k == "none") and only[name]
         and not P:method_anywhere(name) then
      return only[name][name](P, node, object, e)
   end
   if not ty and name == "items" then return dict.items(P, node, object, e) end
   if not ty and name == "get" and #node.args == 2 then return dict.get(P, node, object, e) end
   if not ty and (name == "add_" or name == "addcmul_") then
      return tensor[name](P, node, object, e)
   end
   if not ty and name == "replace" then return str.replace(P, node, object, e) end
   if not ty and name == "split" and (#node.args == 0 or node.args[1].kind == "str") then
      return str.split(P, node, object, e)
   end
   if not ty and name == "format" then return str.format(P, node, object, e) end
end

return M
