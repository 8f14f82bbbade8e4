-- loops.lua - translates `for` loops: ranges become numeric loops, lists use ipairs, and other
-- objects use the runtime's iterators.

local subscripts = require "tlua.port.subscripts"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"

local is = types.is

local M = {}

-- If a node is a call of one of Python's builtins or of an imported function, returns the
-- function's name; otherwise returns nil.
local function builtin(P, node)
   if node._ ~= "Call" then return nil end
   if node.func._ == "Name" and not P:is_known(node.func.id) then return node.func.id end
   local path = P:path(node.func)
   return path
end

-- Returns whether a variable is used in a body only as a position in a list or tensor.
local function only_positions(P, body, name)
   local uses, positions = 0, 0
   for _, stmt in ipairs(body) do
      walk.each(stmt, function(child)
         if child._ == "Name" and child.id == name then
            uses = uses + 1
            if child.stored or child.augmented then uses = uses + 100 end
         end
         if child._ == "Subscript" and child.slice._ == "Name" and child.slice.id == name then
            local could = P.can_hoist
            P.can_hoist = false
            local container = P:expr(child.value)
            P.can_hoist = could
            if is(container.ty, "list tuple tensor nn") then positions = positions + 1 end
         end
      end)
   end
   return uses > 0 and uses == positions
end

-- Translates `for i in range(...)`.
local function range_head(P, target, call, body)
   local arguments = call.args
   local first, last, step = "0", arguments[1], nil
   if #arguments > 1 then
      first, last = P:emit(arguments[1]), arguments[2]
      step = arguments[3]
   end
   local name = target.id
   if #arguments == 1 and body and only_positions(P, body, name) then
      P:set_type(name, types.pos)
      return ("for %s = 1, %s do"):format(P:name(name), (P:emit(last)))
   end
   local by, start = step and subscripts.literal(step), subscripts.literal(arguments[1])
   local stop_at = #arguments > 1 and subscripts.literal(last)
   local negative = #arguments > 1 and start and start < 0
      or (by or 1) < 0 and stop_at and stop_at < -1
   local low = #arguments == 1 and 0 or not step and start
      or by and by < 0 and stop_at and stop_at + 1 or by and by > 0 and start
   P:set_type(name, negative and types.negative or low and types.at_least(low) or types.int)
   if step and not by then
      return ("for %s in %s(%s, %s, %s) do"):format(P:name(name), P:py "range", first,
         P:emit(last), P:emit(step))
   end
   local stop = subscripts.moved(P, last, (by or 1) > 0 and -1 or 1)
   return ("for %s = %s, %s%s do"):format(P:name(name), first, stop,
      step and ", " .. P:emit(step) or "")
end

-- Iterators --------------------------------------------------------------------------------------

-- Describes the iteration of a loop. `text` is an expression for Lua's `for`; `values` has the
-- types of its values; `index` tells whether the first value is an unused index, as with ipairs;
-- `spread` tells whether several values make one tuple in Python.
local iterate

-- Returns whether a type is nn.ModuleDict or nn.ParameterDict. pairs visits their items in order.
local function is_named(ty)
   return is(ty, "nn") and (ty.class == "ModuleDict" or ty.class == "ParameterDict")
end

local function over_list(text, item)
   return {text = ("ipairs(%s)"):format(text), index = true, values = {item}}
end

local function over_call(P, node, name)
   if name == "enumerate" then
      local inner = iterate(P, node.args[1])
      local start = node.args[2] and P:emit(node.args[2])
      for _, keyword in ipairs(node.keywords) do
         if keyword.arg == "start" then start = P:emit(keyword.value) end
      end
      return {enumerate = true, inner = inner, start = start, node = node.args[1],
         values = {types.int}, spread = true}
   elseif name == "zip" then
      local parts, values = {}, {}
      for i, item in ipairs(node.args) do
         local text, e = P:emit(item)
         parts[i] = text
         values[i] = is(e.ty, "list") and e.ty.e or is(e.ty, "tensor") and types.tensor or false
      end
      return {text = ("%s(%s)"):format(P:py "zip", table.concat(parts, ", ")), values = values,
         spread = true}
   elseif name == "itertools.count" then
      return {count = true, values = {types.int}}
   elseif name == "itertools.product" then
      local parts = {}
      for i, item in ipairs(node.args) do parts[i] = P:emit(item) end
      return {text = ("%s(%s)"):format(P:py "product", table.concat(parts, ", ")), values = {},
         spread = true}
   end
end

local function over_method(P, node)
   local method = node.func.attr
   local object, e = P:emit(node.func.value, "prefix")
   if method == "items" and not is(e.ty, "inst") then
      if not is_named(e.ty) and (not is(e.ty, "dict") or not e.ty.ordered) then
         P:note(node, "pairs visits a table's keys in no order; py.sorted_pairs sorts them")
      end
      return {text = ("pairs(%s)"):format(object), values = {types.str, e.ty and e.ty.v or false},
         spread = true}
   elseif method == "keys" and not is(e.ty, "inst") then
      return {text = ("pairs(%s)"):format(object), values = {types.str}}
   elseif method == "values" and not is(e.ty, "inst") then
      return {text = ("pairs(%s)"):format(object), index = true,
         values = {e.ty and e.ty.v or false}}
   elseif method == "named_parameters" or method == "named_modules" or method == "named_children"
         or method == "named_buffers" then
      local what = method:find "param" or method:find "buffer"
      return {text = (P:emit(node)), values = {types.str, what and types.tensor or types.nn},
         spread = true}
   elseif method == "parameters" or method == "buffers" then
      return over_list(P:emit(node), types.tensor)
   elseif method == "children" or method == "modules" then
      return over_list(P:emit(node), types.nn)
   elseif method == "split" or method == "chunk" or method == "unbind" then
      local text, call = P:emit(node)
      if is(call.ty, "list") then return over_list(text, call.ty.e) end
   end
end

function iterate(P, node)
   local name = builtin(P, node)
   local found = name and over_call(P, node, name)
      or node._ == "Call" and node.func._ == "Attribute" and not P:path(node.func)
         and over_method(P, node)
   if found then return found end
   local text, e = P:emit(node, "prefix")
   local ty = e.ty
   if is(ty, "list") then return over_list(e.t, ty.e) end
   if is_named(ty) then return {text = ("pairs(%s)"):format(e.t), values = {types.str}} end
   if is(ty, "nn module") then return over_list(e.t, ty.e or types.nn) end
   if is(ty, "tuple") and not ty.multi then return over_list(e.t, ty.es and ty.es[1]) end
   if is(ty, "tensor") then return {text = text .. ":iter()", values = {types.tensor}} end
   if is(ty, "dict set") then
      if is(ty, "dict") then
         P:note(node, "pairs visits a table's keys in no order; py.sorted_pairs sorts them")
      end
      return {text = ("pairs(%s)"):format(e.t), values = {types.str}}
   elseif is(ty, "file") then
      return {text = text .. ':lines "L"', values = {types.str}}
   elseif is(ty, "str") then
      return {text = text .. ":gmatch(utf8.charpattern)", values = {types.str}}
   elseif is(ty, "loader") then
      return {text = text .. ":iter()", values = {types.tensor, types.tensor, types.tensor},
         spread = true, batches = true}
   elseif is(ty, "iter") then
      return {text = e.t, values = {ty.e}, spread = ty.spread}
   end
   return {text = ("%s(%s)"):format(P:py "each", e.t), values = {}, unknown = true}
end

-- Heads ------------------------------------------------------------------------------------------

local function is_tuple(node) return node._ == "Tuple" or node._ == "List" end

-- Chooses names for the variables of a loop. If a target is a tuple inside a tuple, a new variable
-- stands for it, and `after` gets the target, which is unpacked on a separate line.
local function bind(P, target, types_of, spread, after)
   if target._ == "Name" then
      P:set_type(target.id, types_of[1] or nil)
      return {P:name(target.id)}
   end
   if not is_tuple(target) then
      local name = P:fresh "value"
      after[#after + 1] = {target = target, name = name}
      return {name}
   end
   if not spread then
      local name = P:fresh "pair"
      after[#after + 1] = {target = target, name = name, ty = types_of[1] or nil}
      return {name}
   end
   local names = {}
   for i, item in ipairs(target.elts) do
      if item._ == "Name" then
         P:set_type(item.id, types_of[i] or nil)
         names[i] = P:name(item.id)
      elseif item._ == "Starred" then
         P:note(item, "a starred name in a loop")
         names[i] = P:name(item.value.id)
      else
         local name = P:fresh "pair"
         after[#after + 1] = {target = item, name = name, ty = types_of[i] or nil}
         names[i] = name
      end
   end
   return names
end

local function packed(P, source, target)
   if is_tuple(target) then
      if source.unknown then
         return ("%s(%s)"):format(P:py "tuples", source.text:match "^py%.each%((.*)%)$"), true
      end
      return source.text, source.spread
   end
   if source.spread then
      local ty = source.batches and nil or types.tuple_of(source.values)
      source.values = {ty}
      return ("%s(%s)"):format(P:py(source.batches and "batches" or "packed"), source.text), false
   end
   return source.text, source.spread
end

-- Translates `for i, x in enumerate(...)`.
local function enumerate_head(P, target, source, body, after)
   local inner = source.inner
   if target._ ~= "Tuple" then
      P:note(source.node, "enumerate into one name")
      return ("for %s in %s(%s) do"):format(P:name(target.id or "pair"), P:py "packed",
         P:py "enumerate" .. "(" .. inner.text .. ")")
   end
   local index, item = target.elts[1], target.elts[2]
   P:set_type(index.id, types.int)
   if inner.count then inner.text = P:py "count" .. "()" end
   if inner.enumerate then
      P:note(source.node, "enumerate of enumerate")
      inner = {text = "nil", values = {}}
   end
   if inner.index and not source.start and body and inner.text:find "^ipairs"
         and only_positions(P, body, index.id) then
      local names = bind(P, item, inner.values, false, after)
      P:set_type(index.id, types.pos)
      return ("for %s, %s in %s do"):format(P:name(index.id), table.concat(names, ", "), inner.text)
   end
   local text, spread = packed(P, inner, item)
   local names = bind(P, item, inner.values, spread, after)
   local direct = text:match "^ipairs(%b())$"
   local is_each = text:match "^py%.each(%b())$"
   local list = (direct or is_each) and (direct or is_each):sub(2, -2) or text
   local arguments = list .. (source.start and source.start ~= "0" and ", " .. source.start or "")
   return ("for %s, %s in %s(%s) do"):format(P:name(index.id), table.concat(names, ", "),
      P:py "enumerate", arguments)
end

local function range_call(P, node)
   return builtin(P, node) == "range" and #node.keywords == 0
end

-- Translates a loop's head; `enumerate(range(a, b, step))` becomes a loop over the range with a
-- counter.
local function head_of(P, target, iter, body, after)
   if range_call(P, iter) and target._ == "Name" then return range_head(P, target, iter, body) end
   local source
   if range_call(P, iter) then
      source = {text = P:emit(iter), values = {types.int}}
   else
      source = iterate(P, iter)
   end
   if source.count then
      P:set_type(target.id, types.int)
      local start = iter.args[1] and P:emit(iter.args[1]) or "0"
      return ("for %s = %s, math.huge do"):format(P:name(target.id), start)
   end
   if source.enumerate then return enumerate_head(P, target, source, body, after) end
   local text, spread = packed(P, source, target)
   local names = bind(P, target, source.values, spread, after)
   if source.index then table.insert(names, 1, "_") end
   return ("for %s in %s do"):format(table.concat(names, ", "), text)
end

--- Writes the head of a loop, and the lines that unpack nested targets. The caller writes the body
--- and `end`.
---@param P port.Porter
---@param target table
---@param iter table
---@param body? table[]  the loop's statements
---@param leaks? table<string, true>  variables that are used after the loop
function M.open(P, target, iter, body, leaks)
   local after = {}
   local head = head_of(P, target, iter, body, after)
   P:flush_pre()
   local copies = {}
   for name in pairs(leaks or {}) do
      local lua_name = P:name(name)
      head = head:gsub("^(for )(.-)( in )", function(a, names, b)
         return a .. (names:gsub("%f[%w_]" .. lua_name .. "%f[^%w_]", lua_name .. "_")) .. b
      end)
      head = head:gsub("^for " .. lua_name .. " =", "for " .. lua_name .. "_ =")
      if head:find(lua_name .. "_", 1, true) then
         copies[#copies + 1] = ("%s = %s_"):format(lua_name, lua_name)
      end
   end
   P:line(head)
   P.level = P.level + 1
   table.sort(copies)
   for _, copy in ipairs(copies) do P:line(copy) end
   for _, item in ipairs(after) do P:unpack_into(item.target, item.name, item.ty, true) end
end

return M
