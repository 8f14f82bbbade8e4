-- fx.lua - torch.fx: graphs of operators under PyTorch's names. The graphs are those of
-- torch.export.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- Records the operators that a module or a function calls, as torch.export does, and returns them
--- as a graph whose nodes have the shapes and dtypes of their results. Unlike PyTorch's function it
--- takes example inputs. graph:program() makes a program of the graph, in the role of torch.fx's
--- GraphModule; torch.export.save saves the program.
---
---     local graph = torch.fx.symbolic_trace(nn.Linear(3, 2), {torch.ones(4, 3)})
---     local node = graph.nodes[4]
---     print(node, node.meta.shape, node.meta.dtype)
---     --> linear	torch.Size([4, 2])	float32
---@param model nn.Module|function  the module or function to be called
---@param inputs Tensor|table  the arguments of the call, in a list, as for torch.export
---@param options? {dynamic: table<string, table>, names: string[]}  options of torch.export
---@return export.Graph
function M.symbolic_trace(model, inputs, options)
   local title <const> = "fx.symbolic_trace"
   if not args.is_callable(model) then
      args.refuse(title, "model", "a module or a function", model)
   end
   if torch.is_tensor(inputs) then inputs = {inputs} end
   if type(inputs) ~= "table" or getmetatable(inputs) then
      args.refuse(title, "inputs", "a list of the arguments", inputs)
   end
   return torch.export(model, inputs, options):graph():propagate(table.unpack(inputs))
end

--- Replaces a pattern wherever it occurs, as graph:replace_pattern does.
---@param graph export.Graph
---@param pattern export.Graph
---@param replacement export.Graph
---@return integer count  the number of replacements
function M.replace_pattern(graph, pattern, replacement)
   local of = type(graph) == "table" and getmetatable(graph)
   if not of or of.__name ~= "export.Graph" or not class.issubclass(of) then
      args.refuse("fx.replace_pattern", "graph", "a graph, as of torch.fx.symbolic_trace", graph)
   end
   return graph:replace_pattern(pattern, replacement)
end

return M
