-- comprehensions.lua - translates list, set and dict comprehensions to loops that fill a table
-- before the statement, or inside a function if the statement does not always evaluate them.

local loops = require "tlua.port.loops"
local types = require "tlua.port.types"
local walk = require "tlua.port.walk"
local Porter = require "tlua.port.Porter"

local prec = Porter.prec

local function is_none(ty) return types.is(ty, "none") end

local M = {}

-- Writes the loops of a comprehension from the loop number `position` on, with their conditions.
-- `fill` writes the innermost line.
local function nest(P, node, position, fill)
   local generator = node.generators[position]
   if not generator then return fill() end
   loops.open(P, generator.target, generator.iter)
   for _, test in ipairs(generator.ifs) do
      P:line("if " .. P:condition(test).t .. " then")
      P.level = P.level + 1
   end
   nest(P, node, position + 1, fill)
   for _ = 1, #generator.ifs + 1 do
      P.level = P.level - 1
      P:line "end"
   end
end

-- Returns the lines of a loop that fills the variable `name` with the comprehension's items.
local function lines_of(P, node, name, start, fill)
   local lines, pre, could = P.lines, P.pre, P.can_hoist
   P.lines, P.pre, P.can_hoist = {}, {}, false
   local variables = {}
   for _, generator in ipairs(node.generators) do
      walk.each(generator.target, function(child)
         if child._ == "Name" then variables[child.id] = true end
      end)
   end
   P:open("comprehension", node, {variables = variables})
   P:line(("local %s = %s"):format(name, start))
   local ty
   nest(P, node, 1, function() ty = fill(name) end)
   P:close()
   local written = P.lines
   P.lines, P.pre, P.can_hoist = lines, pre, could
   return written, ty
end

-- Translates a comprehension to an expression.
local function emit(P, node, kind, start, fill)
   local wanted = node.wanted_name
   -- the comprehension was already translated, before the statement that contains it
   if P.hoisted[node] then return P.hoisted[node] end
   if P.can_hoist then
      local name = wanted or P:fresh(kind == "dict" and "map" or "list")
      local lines, ty = lines_of(P, node, name, start, fill)
      for _, line in ipairs(lines) do P.pre[#P.pre + 1] = line end
      P.hoisted[node] = {t = name, p = prec.prefix, ty = ty, hoisted = true}
      return P.hoisted[node]
   end
   P.level = P.level + 1
   local lines, ty = lines_of(P, node, "result", start, fill)
   lines[#lines + 1] = P:indent() .. "return result"
   P.level = P.level - 1
   return {t = "(function()\n" .. table.concat(lines, "\n") .. "\n" .. P:indent() .. "end)()",
      p = prec.prefix, ty = ty}
end

--- Translates `[x for ...]`, and also a generator expression if a list can replace it.
function M.list(P, node)
   return emit(P, node, "list", "{}", function(name)
      local value, e = P:emit(node.elt)
      if e.ty and e.ty.multi then value = "{" .. value .. "}" end
      if e.ty and (e.ty.maybe or is_none(e.ty)) then
         P:note(node, "None within a list: a Lua table ends at nil, so the list becomes shorter")
      end
      P:line(("%s[#%s + 1] = %s"):format(name, name, value))
      return types.list_of(e.ty)
   end)
end

--- {x for ...}
function M.set(P, node)
   return emit(P, node, "set", P:py "set" .. "()", function(name)
      P:line(("%s[%s] = true"):format(name, P:emit(node.elt)))
      return types.set
   end)
end

--- {k: v for ...}
function M.dict(P, node)
   return emit(P, node, "dict", "{}", function(name)
      local value, e = P:emit(node.value)
      P:line(("%s[%s] = %s"):format(name, P:emit(node.key), value))
      return types.dict_of(e.ty)
   end)
end

return M
