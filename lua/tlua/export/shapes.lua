-- shapes.lua - finds the shapes and dtypes of a graph's intermediate results by a run that returns
-- all results.

local torch = require "tlua"
local nested = require "tlua.export.nested"

local TITLE <const> = "export.Graph.propagate"

local function note(node, tensor)
   node.meta = {shape = tensor.shape, dtype = tensor.dtype, device = tensor.device}
end

-- Returns the calls whose results can be outputs: all calls outside branches and loops.
local function visible_calls(graph)
   local list, depth = {}, 0
   for _, node in ipairs(graph.nodes) do
      local mark = node.op == "call_function" and node.target
      local kind = mark and (mark:match "^cond_(%a+)$" or mark:match "^loop_(%a+)$")
      if kind == "begin" then depth = depth + 1 end
      if kind == "end" then depth = depth - 1 end
      -- Unused results of an operator with several results are left out, since the operator may not
      -- compute them.
      local item = mark == "getitem" and not node.results and #node:users() > 0
      local result = mark and not kind and mark:sub(-1) ~= "_" and (node.results == 1 or item)
      if result and depth == 0 then list[#list + 1] = node end
   end
   return list
end

--- Runs the graph with the given inputs and sets the field `meta` of each node.
return function(graph, ...)
   local tensors = {}
   nested.flatten(TITLE, "inputs", {...}, tensors)
   local inputs = graph.description_.inputs
   if #tensors ~= #inputs then
      torch.raise(("%s: inputs: expected %d tensors, got %d"):format(TITLE, #inputs, #tensors))
   end
   local calls, position = visible_calls(graph), 0
   for _, node in ipairs(graph.nodes) do
      node.meta = {}
      if node.op == "placeholder" then
         position = position + 1
         note(node, tensors[position])
      elseif node.op == "get_attr" then
         note(node, graph.constants_[node.target])
      end
   end
   if #calls == 0 then return graph end
   local restore_random = require "tlua.export.random"()
   local results = graph:evaluate_(calls, tensors)
   restore_random()
   for i, node in ipairs(calls) do
      note(node, results[i])
   end
   return graph
end
