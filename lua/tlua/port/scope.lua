-- scope.lua - decides where each variable of a Python function is declared as a Lua local.
--
-- Python's variables live in the whole function, Lua's in a block. A variable is declared in the
-- innermost block that contains all its uses. If its first use there is an assignment, that
-- statement declares it; if its first use is in another statement, such as a branch that assigns it
-- or a function that uses it later, a line `local x` before that statement declares it. A block may
-- declare a variable for itself only if it assigns the variable before using it.

local walk = require "tlua.port.walk"

local M = {}

-- Uses of variables in a statement ----------------------------------------------------------------

-- Calls visit(name, stores) for each variable of this scope that an expression or a target uses;
-- `stores` is true for an assignment. Uses in nested functions count as reads.
local function expression_uses(node, visit)
   walk.each(node, function(child)
      if child._ == "Name" then
         visit(child.id, child.stored)
      elseif child._ == "NamedExpr" then
         visit(child.target.id, true)
      elseif walk.opens_scope(child) then
         for name in pairs(walk.free_names(child)) do visit(name, false) end
         return false
      end
   end)
end

-- Returns the blocks of a compound statement; none for any other statement.
local function blocks_of(stmt)
   local kind = stmt._
   if kind == "If" then return {stmt.body, stmt.orelse or {}} end
   if kind == "For" or kind == "While" or kind == "AsyncFor" then
      return {stmt.body, stmt.orelse or {}}
   end
   if kind == "With" or kind == "AsyncWith" then return {stmt.body} end
   if kind == "Try" or kind == "TryStar" then
      local list = {stmt.body}
      for _, handler in ipairs(stmt.handlers) do list[#list + 1] = handler.body end
      list[#list + 1] = stmt.orelse
      list[#list + 1] = stmt.finalbody
      return list
   end
   return {}
end

-- Returns the expressions in the head of a compound statement, or a list with the statement itself.
local function head_of(stmt)
   local kind = stmt._
   if kind == "If" or kind == "While" then return {stmt.test} end
   if kind == "For" then return {stmt.iter} end
   if kind == "With" then
      local list = {}
      for _, item in ipairs(stmt.items) do list[#list + 1] = item.context_expr end
      return list
   end
   if kind == "Try" then
      local list = {}
      for _, handler in ipairs(stmt.handlers) do list[#list + 1] = handler.type end
      return list
   end
   return {stmt}
end

-- Returns the names that a compound statement binds for its own block: a loop's variables, `with
-- ... as f`.
local function bound_by(stmt)
   local names = {}
   local function add(target)
      if target then
         walk.each(target, function(child)
            if child._ == "Name" and child.stored then names[child.id] = true end
         end)
      end
   end
   if stmt._ == "For" then add(stmt.target) end
   if stmt._ == "With" then
      for _, item in ipairs(stmt.items) do add(item.optional_vars) end
   end
   return names
end

-- Returns the names that a definition or an import binds.
local function names_given(stmt)
   local kind, names = stmt._, {}
   if kind == "FunctionDef" or kind == "ClassDef" then names[stmt.name] = true end
   if kind == "Import" or kind == "ImportFrom" then
      for _, alias in ipairs(stmt.names) do names[walk.alias_name(alias)] = true end
   end
   return names
end

local function uses_in_head(stmt, name)
   local used, stored = false, names_given(stmt)[name] == true
   for _, part in ipairs(head_of(stmt)) do
      expression_uses(part, function(other, stores)
         if other == name then
            used = used or not stores
            stored = stored or stores
         end
      end)
   end
   return used, stored
end

local function uses(stmt, name)
   local used, stored = uses_in_head(stmt, name)
   if used or stored or bound_by(stmt)[name] then return true end
   if stmt._ == "Try" then
      for _, handler in ipairs(stmt.handlers) do
         if handler.name == name then return true end
      end
   end
   for _, block in ipairs((blocks_of(stmt))) do
      for _, inner in ipairs(block) do
         if uses(inner, name) then return true end
      end
   end
   return false
end

local function users(block, name)
   local list = {}
   for _, stmt in ipairs(block) do
      if uses(stmt, name) then list[#list + 1] = stmt end
   end
   return list
end

local simple = {
   Assign = true, AnnAssign = true, FunctionDef = true, ClassDef = true, Import = true,
   ImportFrom = true,
}

-- Returns whether a statement assigns the variable in every case before anything in the statement
-- reads the variable.
local function defines(stmt, name)
   if simple[stmt._] then
      if names_given(stmt)[name] then return true end
      if stmt._ == "AnnAssign" and not stmt.value then return false end
      local used, stored = uses_in_head(stmt, name)
      return stored and not used
   end
   if bound_by(stmt)[name] then return not uses_in_head(stmt, name) end
   if stmt._ == "If" and #(stmt.orelse or {}) > 0 then
      if uses_in_head(stmt, name) then return false end
      for _, block in ipairs {stmt.body, stmt.orelse} do
         local first = users(block, name)[1]
         if not first or not defines(first, name) then return false end
      end
      return true
   end
   return stmt._ == "With" and not uses_in_head(stmt, name)
      and users(stmt.body, name)[1] ~= nil and defines(users(stmt.body, name)[1], name)
end

-- Placing -----------------------------------------------------------------------------------------

-- Returns whether a variable is used only inside the blocks of a statement, and each block that
-- uses it can declare it for itself. So no declaration is needed outside the statement.
local function contains(stmt, name)
   local blocks = blocks_of(stmt)
   local own = bound_by(stmt)[name]
   if #blocks == 0 or uses_in_head(stmt, name) then return false end
   for i, block in ipairs(blocks) do
      local list = users(block, name)
      local first = list[1]
      if first and own and i > 1 then return false end
      if first and not own and not defines(first, name) then
         for _, inner in ipairs(list) do
            if not contains(inner, name) then return false end
         end
      end
   end
   return true
end

local place

local function place_inside(stmt, name, plan)
   if bound_by(stmt)[name] then
      plan.own[stmt] = plan.own[stmt] or {}
      plan.own[stmt][name] = true
      return
   end
   for _, block in ipairs((blocks_of(stmt))) do place(block, name, plan) end
end

function place(block, name, plan)
   local list = users(block, name)
   if #list == 0 then return end
   local kept = true
   for _, stmt in ipairs(list) do kept = kept and contains(stmt, name) end
   if kept then
      for _, stmt in ipairs(list) do place_inside(stmt, name, plan) end
      return
   end
   local first = list[1]
   if simple[first._] and defines(first, name) then
      plan.at[first] = plan.at[first] or {}
      plan.at[first][name] = true
   else
      plan.before[first] = plan.before[first] or {}
      table.insert(plan.before[first], name)
   end
end

--- Plans the declarations of local variables in the body of a function or module.
---@param body table  the list of statements
---@param variables table<string, true>  the function's own variables, without parameters
---@return table plan  `at[stmt][name]`: the statement declares it; `before[stmt]`: a list of names
--- to declare before it; `own[stmt][name]`: a loop variable that is not used elsewhere
function M.plan(body, variables)
   local plan = {at = {}, before = {}, own = {}}
   local names = {}
   for name in pairs(variables) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do place(body, name, plan) end
   return plan
end

return M
