-- patterns.lua - finds the calls of a pattern in a program's graph, and replaces them by other
-- calls.

local torch = require "tlua"
local args = require "tlua.args"
local views = require "tlua.export.views"

local TITLE <const> = "export.Graph.replace_pattern"

-- Returns whether a call has an effect besides its result: it changes a tensor, or it marks a
-- branch or a loop.
local function has_effect(node)
   local target = node.target
   return node.op == "call_function"
      and (target:sub(-1) == "_" or target:find "^cond_" ~= nil or target:find "^loop_" ~= nil)
end

-- Returns whether a node may share memory with an input or a constant of its graph.
local function may_alias(node)
   if node.op ~= "call_function" then return true end
   if not views[node.target] then return false end
   for _, value in pairs(node.args) do
      if type(value) == "table" and rawget(value, "op") then
         if may_alias(value) then return true end
      elseif type(value) == "table" and not getmetatable(value) then
         for _, item in ipairs(value) do
            if type(item) == "table" and rawget(item, "op") and may_alias(item) then return true end
         end
      end
   end
   return false
end

-- Returns whether a node is an unused result of a call that has several results.
local function is_unused_result(node)
   return node.target == "getitem" and not node.results and #node:users() == 0
end

-- Returns whether a constant of the graph matches a constant of the pattern. They must have equal
-- values, and must either share memory or belong to no model. The names of tensors that belong to
-- no model are constant_1 and so on.
local function match_constant(state, of, node)
   local a, b = state.pattern.constants_[of.target], state.graph.constants_[node.target]
   if rawequal(a, b) then return true end
   if a.dtype ~= b.dtype or not torch.equal(a, b:to(a.device)) then return false end
   return torch._same_memory({a}, {b}) == 0
      or of.target:find "^constant_%d" ~= nil and node.target:find "^constant_%d" ~= nil
end

-- Checks a pattern or a replacement, and returns its inputs and its result.
local function read_graph(graph, title)
   local inputs = {}
   for _, node in ipairs(graph.nodes) do
      if node.op == "placeholder" then inputs[#inputs + 1] = node end
      if has_effect(node) then
         torch.raise(("%s: %s: expected calls without effects, got %s"):format(TITLE, title,
            node.target))
      end
   end
   local outputs = graph.nodes[#graph.nodes].args
   if #outputs ~= 1 or #graph.description_.symbols > 0 then
      torch.raise(("%s: %s: expected a graph with one result and fixed sizes"):format(TITLE, title))
   end
   return inputs, outputs[1]
end

local match

-- Returns whether an argument in the graph matches an argument in the pattern. Arguments are nodes,
-- lists or plain data.
local function match_value(state, of, value)
   if type(of) ~= "table" or type(value) ~= "table" then
      if math.type(of) ~= math.type(value) then return false end
      if of == 0 and value == 0 then return 1 / of == 1 / value end -- 0.0 does not match -0.0
      return of == value or of ~= of and value ~= value
   end
   if rawget(of, "op") then return rawget(value, "op") ~= nil and match(state, of, value) end
   if getmetatable(value) ~= getmetatable(of) or #of ~= #value then return false end
   for i, item in ipairs(of) do
      if not match_value(state, item, value[i]) then return false end
   end
   return true
end

-- Returns whether a node matches the pattern's node, and records the match.
match = function(state, of, node)
   if state.bound[of] then return state.bound[of] == node end
   if of.op == "placeholder" then
      state.bound[of] = node
      return true
   end
   if state.new[node] then return false end
   local is_call = of.op == "call_function"
   if of.op ~= node.op or is_call and of.target ~= node.target then return false end
   state.bound[of] = node
   if of.op == "get_attr" then
      return match_constant(state, of, node)
   end
   if of.results ~= node.results then return false end
   for _, list in ipairs {of.args, node.args} do
      for name in pairs(list) do
         if not match_value(state, of.args[name], node.args[name]) then return false end
      end
   end
   state.inside[node] = true
   return true
end

-- Returns whether the matched calls can be removed: no other call uses them, they are not inputs of
-- the pattern, and no call between them changes a tensor. If the result of the pattern or of the
-- replacement may share memory with an input, no later call may change a tensor either.
local function removable(state, last)
   local begun, ended = false, false
   for of, node in pairs(state.bound) do
      if of.op == "placeholder" and state.inside[node] then return false end
   end
   for _, node in ipairs(state.graph.nodes) do
      begun = begun or state.inside[node] == true
      if begun and not ended and has_effect(node) then return false end
      if ended and state.aliases and node.target:sub(-1) == "_" then return false end
      ended = ended or node == last
      if state.inside[node] and node ~= last then
         for _, user in ipairs(node:users()) do
            if not state.inside[user] and not is_unused_result(user) then return false end
         end
      end
   end
   return true
end

-- Returns a copy of an argument in the replacement in which the graph's nodes take the place of the
-- replacement's nodes. `made` maps the latter to the former.
local function translated(value, made)
   if type(value) ~= "table" then return value end
   if made[value] then return made[value] end
   if getmetatable(value) then return value end
   local list = {}
   for i, item in ipairs(value) do list[i] = translated(item, made) end
   return list
end

-- Returns a new name for a constant of the graph.
local function free_constant(graph, name)
   local try, i = name, 1
   while graph.constants_[try] do try, i = ("%s_%d"):format(name, i), i + 1 end
   return try
end

-- Inserts the calls of the replacement before a node, and returns the result's node.
local function insert(graph, add, replacement, output, made, before, new)
   for _, node in ipairs(replacement.nodes) do
      if node.op == "get_attr" then
         made[node] = graph:create_node("get_attr", free_constant(graph, node.target),
            replacement.constants_[node.target]:to(graph.device_))
      elseif node.op == "call_function" then
         local given = {}
         for name, value in pairs(node.args) do given[name] = translated(value, made) end
         made[node] = add(graph, before, node.op, node.target, given, node.name)
         made[node].results = node.results
         new[made[node]] = true
      end
   end
   return made[output]
end

--- Replaces the pattern wherever it occurs, and returns the number of replacements.
return function(graph, add, pattern, replacement)
   local Graph = getmetatable(graph)
   if getmetatable(pattern) ~= Graph then args.refuse(TITLE, "pattern", "a graph", pattern) end
   if getmetatable(replacement) ~= Graph then
      args.refuse(TITLE, "replacement", "a graph", replacement)
   end
   local inputs, output = read_graph(pattern, "pattern")
   local others, result = read_graph(replacement, "replacement")
   if #inputs ~= #others then
      torch.raise(("%s: replacement: expected %d inputs, as of the pattern, got %d"):format(TITLE,
         #inputs, #others))
   end
   if output.op ~= "call_function" then
      torch.raise(TITLE .. ": pattern: expected a call as its result, got " .. output.op)
   end
   for i, input in ipairs(inputs) do
      if #input:users() == 0 and #others[i]:users() > 0 then
         torch.raise(("%s: pattern: it does not use %s, which the replacement uses"):format(TITLE,
            input.name))
      end
   end
   local count, erased, made_nodes = 0, {}, {}
   for _, node in ipairs {table.unpack(graph.nodes)} do
      local state = {graph = graph, pattern = pattern, bound = {}, inside = {}, new = made_nodes,
         aliases = may_alias(output) or may_alias(result)}
      if not erased[node] and match(state, output, node) and removable(state, node) then
         local made = {}
         for i, input in ipairs(inputs) do made[others[i]] = state.bound[input] end
         local new = insert(graph, add, replacement, result, made, node, made_nodes)
         node:replace_all_uses_with(new)
         for i = #graph.nodes, 1, -1 do
            local old = graph.nodes[i]
            if state.inside[old] or is_unused_result(old) and state.inside[old.args.input] then
               graph:erase_node(old)
               erased[old] = true
            end
         end
         count = count + 1
      end
   end
   return count
end
