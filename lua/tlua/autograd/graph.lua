-- graph.lua - torch.autograd.graph: the recorded graph, to look at.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"' end

local function shape_text(shape) return "(" .. table.concat(shape, ", ") .. ")" end

-- Names of tensors: from a module, its parameters' paths; from a table, its keys.
local function names_of(names)
   local list = {}
   if names == nil then return list end
   if type(names) ~= "table" then
      args.refuse("autograd.graph.dot", "names", "a module or a table of tensors", names)
   end
   if names.named_parameters then
      for path, parameter in names:named_parameters() do list[#list + 1] = {parameter, path} end
   else
      for name, tensor in pairs(names) do
         if torch.is_tensor(tensor) then list[#list + 1] = {tensor, tostring(name)} end
      end
   end
   table.sort(list, function(a, b) return a[2] < b[2] end)
   return list
end

--- The graph behind a tensor in the language of Graphviz (`dot -Tsvg`): boxes are derivatives, with
--- the shapes of their results, ellipses the leaves, with shape and, from `names`, their name or
--- path.
---@param tensor Tensor
---@param names? nn.Module|table<string, Tensor>
---@return string
function M.dot(tensor, names)
   if not torch.is_tensor(tensor) then
      args.refuse("autograd.graph.dot", "tensor", "a tensor", tensor)
   end
   local known = names_of(names)
   if not tensor.grad_fn then
      torch.raise("autograd.graph.dot: the tensor has no grad_fn; nothing was recorded")
   end
   local lines = {"digraph {", "  rankdir=BT; node [fontsize=10];"}
   local leaves, seen, edges = {}, {}, {}
   local function leaf_id(leaf)
      for i, other in ipairs(leaves) do
         if other == leaf then return "l" .. i end
      end
      leaves[#leaves + 1] = leaf
      local name = "leaf"
      for _, pair in ipairs(known) do
         if pair[1] == leaf then name = pair[2] end
      end
      lines[#lines + 1] = ("  l%d [shape=ellipse, style=filled, fillcolor=lightblue, label=%s];")
         :format(#leaves, quoted(name .. "\n" .. shape_text(leaf.shape)))
      return "l" .. #leaves
   end
   local waiting = {tensor.grad_fn}
   seen[tensor.grad_fn.sequence] = true
   while #waiting > 0 do
      local node = table.remove(waiting)
      local shapes = {}
      for i, shape in ipairs(node.shapes) do shapes[i] = shape_text(shape) end
      lines[#lines + 1] = ("  n%d [shape=box, label=%s];"):format(node.sequence,
         quoted(tostring(node):match "^<(.*)>$" .. "\n" .. table.concat(shapes, " ")))
      for _, edge in ipairs(node.next_functions) do
         local from = edge[1]
         if torch.is_tensor(from) then
            edges[#edges + 1] = ("  %s -> n%d;"):format(leaf_id(from), node.sequence)
         elseif from then
            edges[#edges + 1] = ("  n%d -> n%d;"):format(from.sequence, node.sequence)
            if not seen[from.sequence] then
               seen[from.sequence] = true
               waiting[#waiting + 1] = from
            end
         end
      end
   end
   table.move(edges, 1, #edges, #lines + 1, lines)
   lines[#lines + 1] = "}\n"
   return table.concat(lines, "\n")
end

return M
