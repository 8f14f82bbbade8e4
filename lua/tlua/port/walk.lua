-- walk.lua - walks over Python's syntax tree: finds children, the names that a function assigns,
-- and the names that it takes from outside.

local M = {}

-- Names of fields that contain nodes. Where the order of evaluation matters, they are in the order
-- of Python's source.
local order = {"decorator_list", "bases", "targets", "target", "test", "iter", "func", "left",
   "value", "values", "items", "context_expr", "optional_vars", "keys", "elt", "key", "generators",
   "ifs", "comparators", "operand", "right", "op", "ops", "slice", "lower", "upper", "step", "args",
   "posonlyargs", "kwonlyargs", "vararg", "kwarg", "defaults", "kw_defaults", "annotation",
   "returns", "keywords", "elts", "body", "orelse", "handlers", "finalbody", "type", "exc", "cause",
   "msg", "format_spec", "subject", "cases"}

local function children(node)
   local list = {}
   for _, field in ipairs(order) do
      local value = node[field]
      if type(value) == "table" then
         if value._ then
            list[#list + 1] = value
         else
            for _, item in ipairs(value) do
               if type(item) == "table" and item._ then list[#list + 1] = item end
            end
         end
      end
   end
   return list
end

--- Calls visit(node) for a node and its descendants; if visit returns `false`, the descendants are
--- skipped.
---@param node table
---@param visit fun(node: table): boolean?
function M.each(node, visit)
   if visit(node) == false then return end
   for _, child in ipairs(children(node)) do M.each(child, visit) end
end

local scopes = {
   FunctionDef = true, AsyncFunctionDef = true, Lambda = true, ClassDef = true, ListComp = true,
   SetComp = true, DictComp = true, GeneratorExp = true,
}

--- Returns whether a node has its own variables.
function M.opens_scope(node) return scopes[node._] end

local function mark_target(node)
   if node._ == "Name" then
      node.stored = true
   elseif node._ == "Tuple" or node._ == "List" then
      for _, item in ipairs(node.elts) do mark_target(item) end
   elseif node._ == "Starred" then
      mark_target(node.value)
   end
end

--- Sets the mark `stored` on names that are assigned, and `augmented` on those of assignments such
--- as `x += 1`.
---@param root table
function M.mark(root)
   M.each(root, function(node)
      local kind = node._
      if kind == "Assign" then
         for _, target in ipairs(node.targets) do mark_target(target) end
      elseif kind == "AugAssign" then
         if node.target._ == "Name" then node.target.augmented = true end
      elseif kind == "AnnAssign" or kind == "For" or kind == "comprehension"
            or kind == "NamedExpr" then
         mark_target(node.target)
      elseif kind == "withitem" and node.optional_vars then
         mark_target(node.optional_vars)
      end
   end)
end

local function add_arguments(arguments, names)
   for _, field in ipairs {"posonlyargs", "args", "kwonlyargs"} do
      for _, arg in ipairs(arguments[field] or {}) do names[arg.arg] = true end
   end
   if arguments.vararg then names[arguments.vararg.arg] = true end
   if arguments.kwarg then names[arguments.kwarg.arg] = true end
end

--- Returns the set of the parameters' names of a function definition or a lambda expression.
function M.parameters(node)
   local names = {}
   if node.args and node.args._ == "arguments" then add_arguments(node.args, names) end
   return names
end

local function alias_name(alias)
   return alias.asname or alias.name:match "^[^.]+"
end

--- Returns the names that a body (a list of statements, or an expression) assigns in its own scope,
--- and the names that it declares global or nonlocal.
---@param body table
---@return table<string, true> assigned
---@return table<string, true> outer
function M.assigned(body)
   local names, outer = {}, {}
   local function visit(node)
      local kind = node._
      if kind == "Name" and (node.stored or node.augmented) then names[node.id] = true end
      if kind == "FunctionDef" or kind == "AsyncFunctionDef" or kind == "ClassDef" then
         names[node.name] = true
         return false
      elseif scopes[kind] then
         return false
      elseif kind == "Import" or kind == "ImportFrom" then
         for _, alias in ipairs(node.names) do names[alias_name(alias)] = true end
      elseif kind == "Global" or kind == "Nonlocal" then
         for _, name in ipairs(node.names) do outer[name] = true end
      elseif kind == "ExceptHandler" and node.name then
         node.own = true
      end
   end
   for _, stmt in ipairs(body) do M.each(stmt, visit) end
   for name in pairs(outer) do names[name] = nil end
   return names, outer
end

--- Returns the names of enclosing scopes that a node with its own scope uses.
---@param node table
---@return table<string, true>
function M.free_names(node)
   if node.free then return node.free end
   local used, own = {}, M.parameters(node)
   local function gather(child)
      if child ~= node and M.opens_scope(child) then
         for name in pairs(M.free_names(child)) do used[name] = true end
         return false
      end
      if child._ == "Name" then
         used[child.id] = true
         if node.generators and child.stored then own[child.id] = true end
      end
      if child._ == "ExceptHandler" and child.name then own[child.name] = true end
   end
   M.each(node, gather)
   if type(node.body) == "table" and not node.body._ and node._ ~= "ClassDef" then
      for name in pairs((M.assigned(node.body))) do own[name] = true end
   elseif node._ == "ClassDef" then
      for name in pairs((M.assigned(node.body))) do own[name] = true end
   end
   for name in pairs(own) do used[name] = nil end
   node.free = used
   return used
end

--- Returns whether a body contains a statement of the kind `kind`, such as "Break" or "Yield", that
--- acts on the body's own scope. A break of an inner loop, for instance, does not count.
function M.has(body, kind)
   local found = false
   local function visit(node)
      if found or scopes[node._] then return false end
      if node._ == kind then
         found = true
         return false
      end
      local loop = node._ == "For" or node._ == "While"
      if loop and (kind == "Break" or kind == "Continue") then return false end
   end
   for _, stmt in ipairs(body) do M.each(stmt, visit) end
   return found
end

M.alias_name = alias_name

return M
