-- rules.lua - analyses derivatives: the rules in an operator's `grad`, the inputs that get an edge
-- in the autograd graph, and the values that the rules use. These values become the fields of the
-- operator's node.

local cdecl = require "cdecl"
local expr = require "expr"

local M = {}

-- Returns the gradient rules, in the order of the parameters, as {targets = {param...}, tree =,
-- text =}.
function M.rules_of(op)
   local rules = {}
   for key, text in pairs(op.grad or {}) do
      local rule = {targets = {}, text = text, tree = expr.parse(text)}
      for name in key:gmatch("[%w_]+") do
         rule.targets[#rule.targets + 1] = op.params[name]
      end
      rules[#rules + 1] = rule
   end
   local position = {}
   for i, p in ipairs(op.params) do position[p] = i end
   table.sort(rules, function(a, b) return position[a.targets[1]] < position[b.targets[1]] end)
   return rules
end

-- Returns the inputs that get an edge in the autograd graph. These are the inputs that have
-- gradient rules, and self if the operator has an in-place form.
function M.edges_of(op, rules)
   local wanted = {}
   if op.inplace or op.inplace_form then
      wanted[op.params[1]] = true
   end
   for _, rule in ipairs(rules) do
      for _, p in ipairs(rule.targets) do wanted[p] = true end
   end
   local edges = {}
   for _, p in ipairs(op.params) do
      if wanted[p] then
         p.edge = #edges
         edges[#edges + 1] = p
      end
   end
   return edges
end

--- The properties of a tensor parameter that a rule may use. Each row has the type of the property,
--- the type of the field that stores it, and a C expression for its value.
M.builtins = {
   sizes = {
      type = "int[]", field = "tli_IntsBuf", list = true, c = "(tl_Ints){%s->ndim, %s->sizes}",
   },
   strides = {
      type = "int[]", field = "tli_IntsBuf", list = true, c = "(tl_Ints){%s->ndim, %s->strides}",
   },
   offset = {type = "int", field = "int64_t", c = "%s->offset"},
   numel = {type = "int", field = "int64_t", c = "%s->numel"},
   ndim = {type = "int", field = "int64_t", c = "(int64_t)%s->ndim"},
   dtype = {type = "dtype", field = "tl_DType", c = "(tl_DType)%s->dtype"},
   device = {type = "device", field = "tl_Device", c = "tli_device(%s)"},
}

-- Returns the node's fields: all values that the rules use, in order of first use.
function M.fields_of(op, rules)
   local fields, byname = {}, {}
   local function add(name, field, rule)
      local f = byname[name]
      if not f then
         f = field
         f.name, f.rules = name, {}
         byname[name] = f
         fields[#fields + 1] = f
      end
      f.rules[rule] = true
   end
   local results = {}
   for k, name in ipairs(op.results.names or {"self"}) do results[name] = k - 1 end
   for _, rule in ipairs(rules) do
      local hidden = {}
      expr.walk(rule.tree, function(node)
         if hidden[node] then return end
         local built = node.kind == "call" and M.builtins[node.name]
         local arg = built and node.args[1]
         if arg and arg.kind == "name" and op.params[arg.name] then
            hidden[arg] = true
            add(node.name .. "_" .. arg.name,
                {what = "builtin", c = built.c:gsub("%%s", arg.name), built = built}, rule)
         elseif node.kind == "call" and node.name == "lengths" then
            hidden[node.args[1]], hidden[node.args[2]] = true, true
            local list, dim = node.args[1].name, node.args[2].name
            add("lengths", {what = "lengths", list = list, dim = dim}, rule)
         elseif node.kind == "call" and node.name == "needs" then
            hidden[node.args[1]] = true
         elseif node.kind == "name" then
            local p, k = op.params[node.name], results[node.name]
            if p and cdecl.tensor_types[p.type] then
               add(node.name, {what = "input", param = p}, rule)
            elseif p then
               add(node.name, {what = "value", param = p}, rule)
            elseif k and not (op.inplace_form and node.name == "self") then
               add(node.name, {what = "result", index = k}, rule)
            end
         end
      end)
   end
   return fields, byname
end

--- Returns whether a field is a list. A list has its own memory, which must be released.
function M.is_list(field)
   return field.what == "lengths" or (field.what == "builtin" and field.built.list)
      or (field.what == "value" and field.param.type:find("%[%]") ~= nil)
end

--- Returns a C condition that is true if the gradients of a rule are needed. For a list of tensors
--- the condition is always true, because each tensor has an edge and the engine decides which
--- gradients are needed.
function M.wants(rule)
   if rule.targets[1].type == "Tensor[]" then return "true" end
   local each = cdecl.map(rule.targets, function(p)
      return ("tli_node_wants(node, %d)"):format(p.edge)
   end)
   return table.concat(each, " || ")
end

--- Returns a C condition that is true if any of the rules that use a field is needed.
function M.wants_field(field, rules)
   local conditions = {}
   for _, rule in ipairs(rules) do
      if field.rules[rule] then conditions[#conditions + 1] = M.wants(rule) end
   end
   return table.concat(conditions, " || ")
end

return M
