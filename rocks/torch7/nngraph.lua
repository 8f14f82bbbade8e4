-- nngraph.lua - Torch7's package nngraph: graphs of modules. module(node, ...) makes a node, as
-- does a call with {nodes}; `-` chains modules and nodes; nn.gModule makes a module from a graph.

local tlua = require "tlua"
local types = require "tlua.torch7.types"
local classes = require "tlua.torch7.classes"
local base = require "tlua.torch7.Module"
local records = require "tlua.torch7.records"
local passes = require "tlua.torch7.graph_passes"
local nn = require "tlua.torch7.nn"

local M = {}

local Node = classes.newmetatable "nngraph.Node"
M.Node = classes.getconstructortable "nngraph.Node"

-- Makes a node from a module. The node follows its parents; an input node has no module.
local function node_of(module, parents)
   return setmetatable({data = {module = module, annotations = {}}, parents = parents or {},
      uses = {}}, Node)
end

local function is_node(value) return type(value) == "table" and getmetatable(value) == Node end

--- Annotates a node: sets its printed text and its name.
function Node:annotate(annotations)
   for key, value in pairs(annotations) do self.data.annotations[key] = value end
   return self
end

-- Returns n nodes, for the n elements of a node's output, which is a table.
function Node:split(n)
   local parts = {}
   for i = 1, n do parts[i] = node_of(nn.SelectTable(i), {self}) end
   return table.unpack(parts)
end

local function list_of(...)
   local list = {...}
   if #list == 1 and type(list[1]) == "table" and not is_node(list[1])
      and not classes.metatype(list[1]) then
      list = list[1]
   end
   for i, value in ipairs(list) do
      if classes.isTypeOf(value, "nn.Module") then list[i] = node_of(value, {}) end
   end
   return list
end

-- module(nodes...) makes a node; a call with tensors still computes the module
local Module = base.Module
local call = Module.__call__
local constructor = classes.getconstructortable "nn.Module"
constructor.__call__ = function(self, ...)
   local first = ...
   if first == nil then return node_of(self, {}) end
   local of_nodes = is_node(first) or type(first) == "table" and not types.is_tensor(first)
      and (is_node(first[1]) or classes.isTypeOf(first[1], "nn.Module"))
      or classes.isTypeOf(first, "nn.Module")
   if not of_nodes then return call(self, ...) end
   return node_of(self, list_of(...))
end

-- Implements the operator -, which feeds a node, a list of nodes, or a module into a module.
local function chain(a, b)
   if classes.isTypeOf(b, "nn.Module") then return node_of(b, list_of(a)) end
   b.parents[#b.parents + 1] = list_of(a)[1]
   return b
end
constructor.__sub__ = chain
Node.__sub = chain
-- module * other: `other` computes first
constructor.__mul__ = function(a, b) return chain(b, a) end
constructor.__unm__ = function(a) return node_of(a, {}) end
Node.__unm = function(a) return a end

-- Returns the given nodes and all nodes that they depend on, each once, in an order of computation.
local function ordered(outputs)
   local order, state = {}, {}
   local function visit(node)
      if state[node] == "open" then tlua.raise "nn.gModule: the graph has a cycle" end
      if state[node] then return end
      state[node] = "open"
      for _, parent in ipairs(node.parents) do visit(parent) end
      state[node] = "done"
      order[#order + 1] = node
   end
   for _, node in ipairs(outputs) do visit(node) end
   return order, state
end

local gModule = classes.class("nn.gModule", "nn.Container")

--- Makes a module from a graph, given the lists of its input and output nodes.
function gModule:__init(inputs, outputs)
   nn.Container.__init(self)
   local order, state = ordered(outputs)
   local at, is_input = {}, {}
   for i, node in ipairs(inputs) do
      if not state[node] then
         tlua.raise(("nn.gModule: the input %d leads to no output"):format(i))
      end
      is_input[node] = i
   end
   self.plan = {}
   for i, node in ipairs(order) do
      at[node] = i
      local sources = {}
      for k, parent in ipairs(node.parents) do sources[k] = at[parent] end
      if #sources == 0 and not is_input[node] then
         tlua.raise "nn.gModule: a node without inputs is no input"
      end
      self.plan[i] = {module = node.data.module, sources = sources, input = is_input[node],
         annotations = node.data.annotations}
      if node.data.module then self:add(node.data.module) end
   end
   self.ends, self.nInputs = {}, #inputs
   -- the graphs of outputs and of gradients, for graph.dot
   self.fg, self.bg = {plan = self.plan}, {plan = self.plan, is_backward = true}
   for i, node in ipairs(outputs) do self.ends[i] = at[node] end
end

local function inputs_of(step, values)
   if #step.sources == 1 then return values[step.sources[1]] end
   local list = {}
   for k, source in ipairs(step.sources) do list[k] = values[source] end
   return list
end

local function forward(self, input)
   local values = {}
   self.given = {}
   for i, step in ipairs(self.plan) do
      local x
      if step.input then
         x = self.nInputs == 1 and input or input[step.input]
      else
         x = inputs_of(step, values)
      end
      self.given[i] = x
      values[i] = step.module and records.forward(step.module, x) or x
   end
   local outputs = {}
   for i, at in ipairs(self.ends) do outputs[i] = values[at] end
   return #outputs == 1 and outputs[1] or outputs
end

function gModule:updateOutput(input)
   if passes.forward(self, input) then
      self.given = nil
      records.forget(self)
   else
      self.output = records.run(self, forward, input)
   end
   return self.output
end

local add = passes.add

local function back(self, method, input, gradOutput, scale)
   local grads, into = {}, {}
   local given = self.given or passes.given(self, input)
   for i, at in ipairs(self.ends) do
      grads[at] = add(grads[at], #self.ends == 1 and gradOutput or gradOutput[i])
   end
   for i = #self.plan, 1, -1 do
      local step, g = self.plan[i], grads[i]
      if g ~= nil then
         if step.module then
            step.module[method](step.module, given[i], g, scale)
            g = step.module.gradInput
         end
         if step.input then into[step.input] = add(into[step.input], g) end
         for k, source in ipairs(step.sources) do
            grads[source] = add(grads[source], #step.sources == 1 and g or g[k])
         end
      end
   end
   return self.nInputs == 1 and into[1] or into
end

function gModule:updateGradInput(input, gradOutput)
   self.gradInput = back(self, "updateGradInput", input, gradOutput)
   return self.gradInput
end
function gModule:accGradParameters(input, gradOutput, scale)
   back(self, "accGradParameters", input, gradOutput, scale)
end
function gModule:accUpdateGradParameters(input, gradOutput, rate)
   back(self, "accUpdateGradParameters", input, gradOutput, rate)
end
function gModule:backward(input, gradOutput, scale)
   if passes.backward(self, input, gradOutput, scale or 1)
      or records.backward_run(self, input, gradOutput, scale or 1) then
      return self.gradInput
   end
   self.gradInput = back(self, "backward", input, gradOutput, scale)
   return self.gradInput
end
function gModule:clearState()
   self.given = nil
   passes.forget(self)
   return nn.Container.clearState(self)
end

local function label(step, i)
   local text = step.annotations.name or (step.module and tostring(step.module):match "^[^\n]*")
      or "input"
   return ("%d: %s"):format(i, text)
end

--- Returns a graph as text in the DOT language of Graphviz.
local function dot(graph, title)
   if type(graph) ~= "table" or type(graph.plan) ~= "table" then
      tlua.raise("graph.dot: expected a gModule or its field fg or bg, got " .. type(graph))
   end
   local lines = {("digraph %q {"):format(title or "graph")}
   for i, step in ipairs(graph.plan) do
      lines[#lines + 1] = ("  n%d [label=%q];"):format(i, label(step, i))
      for _, source in ipairs(step.sources) do
         local from, to = source, i
         if graph.is_backward then from, to = i, source end
         lines[#lines + 1] = ("  n%d -> n%d;"):format(from, to)
      end
   end
   lines[#lines + 1] = "}\n"
   return table.concat(lines, "\n")
end

M.graph = {}
--- Returns a graph's text in the DOT language; if a name is given, also writes `name`.dot.
function M.graph.dot(graph, title, name)
   local text = dot(graph, title)
   if name then
      local path = name .. ".dot"
      local failure = require "tlua.io.replace"(path, function(file)
         return select(2, file:write(text))
      end)
      if failure then error(("graph.dot: %s: %s"):format(path, failure), 2) end
   end
   return text
end

function M.annotateNodes() end
function M.setDebug() end

rawset(_G, "graph", rawget(_G, "graph") or M.graph)

return M
