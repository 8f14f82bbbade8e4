-- nngraph.lua - Torch7's package nngraph, which makes modules from graphs of modules. A call
-- module(node, ...) or module {nodes} makes a node whose inputs are the given nodes. The operator
-- `-` chains modules and nodes. nn.gModule makes a module from a graph.

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

-- The field `data` of a node has Torch7's fields. `module` is the node's module; a node that stands
-- for one element of its only parent's output has the field `selectindex` instead. `annotations`
-- has names and attributes. `mapindex` maps positions to the data of the parents, and the data of
-- the parents to positions. A node that a program has made has the field `parents`, and a node of a
-- finished graph has the field `children` instead.

-- Makes a node from a module. `parents` are the nodes whose outputs the module takes. An input node
-- has no module.
local function node_of(module, parents, data)
   data = data or {module = module}
   data.annotations, data.mapindex = data.annotations or {}, {}
   local node = setmetatable({data = data, parents = {}, children = {}}, Node)
   for _, parent in ipairs(parents or {}) do node:add(parent) end
   return node
end

local function is_node(value) return type(value) == "table" and getmetatable(value) == Node end

--- Adds a parent. The parent's output becomes a further input of this node.
function Node:add(parent)
   local map = self.data.mapindex
   table.insert(self.parents, parent)
   table.insert(map, parent.data)
   map[parent.data] = #map
end

--- Annotates a node: sets its printed text and its name.
function Node:annotate(annotations)
   if type(annotations) ~= "table" then
      tlua.raise("nngraph.Node:annotate: expected a table, got " .. type(annotations))
   end
   for key, value in pairs(annotations) do self.data.annotations[key] = value end
   return self
end

-- Returns n nodes for a node whose output is a table: the i-th node stands for the i-th element of
-- the table.
function Node:split(n)
   if math.type(n) ~= "integer" or n < 2 then
      tlua.raise("nngraph.Node:split: expected a count of at least 2, got " .. tostring(n))
   end
   local parts = {}
   for i = 1, n do parts[i] = node_of(nil, {self}, {selectindex = i}) end
   return table.unpack(parts)
end

--- Returns the name of a node in a graph.
function Node:graphNodeName()
   local name = self.data.annotations.name
   return name and ("%s (%s)"):format(name, self.id) or ("Node%s"):format(self.id)
end

--- Returns the attributes for Graphviz that a program has set by annotate().
function Node:graphNodeAttributes()
   local annotations = self.data.annotations
   annotations.graphAttributes = annotations.graphAttributes or {}
   return annotations.graphAttributes
end

local function list_of(...)
   local list = {...}
   if #list == 1 and type(list[1]) == "table" and not is_node(list[1])
      and not classes.metatype(list[1]) then
      list = list[1]
   end
   local nodes = {}
   for i, value in ipairs(list) do
      if classes.isTypeOf(value, "nn.Module") then
         nodes[i] = node_of(value, {})
      elseif is_node(value) then
         nodes[i] = value
      else
         tlua.raise(("nngraph: input %d: expected a node, got %s"):format(i, classes.type(value)))
      end
   end
   return nodes
end

-- A call with nodes makes a node. A call with tensors computes the module's output as before.
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

-- Implements the operator `-`: in a - b, the node, list of nodes or module a becomes the input of
-- the module b.
local function chain(a, b)
   if classes.isTypeOf(b, "nn.Module") then return node_of(b, list_of(a)) end
   b:add(list_of(a)[1])
   return b
end
constructor.__sub__ = chain
Node.__sub = chain
-- In module * other, the output of `other` is the input of `module`.
constructor.__mul__ = function(a, b) return chain(b, a) end
constructor.__unm__ = function(a) return node_of(a, {}) end
Node.__unm = function(a) return a end

-- Wraps a criterion for use in a graph: it takes {input, target}, and its output has one element,
-- the loss.
local FromCriterion = classes.class("nn.ModuleFromCriterion", "nn.Module")
function FromCriterion:__init(criterion)
   Module.__init(self)
   base.check_part(self, "criterion", criterion, true)
   self.criterion = criterion
   self.gradInput = {}
end
function FromCriterion:updateOutput(input)
   self.output = input[1]:new {self.criterion:updateOutput(input[1], input[2])}
   return self.output
end
function FromCriterion:updateGradInput(input, gradOutput)
   local g = self.criterion:updateGradInput(input[1], input[2])
   local scaled = records.map(function(x) return types.tag(tlua.mul(x, gradOutput[1])) end, g)
   local target = records.map(function(x)
      return types.is_tensor(x) and types.tag(tlua.zeros_like(x)) or x
   end, input[2])
   self.gradInput = {scaled, target}
   return self.gradInput
end
local Criterion = classes.getconstructortable "nn.Criterion"
local call_criterion = Criterion.__call__
Criterion.__call__ = function(self, first, ...)
   local list = not is_node(first) and type(first) == "table" and not classes.metatype(first)
      and first or {first}
   if not is_node(list[1]) then return call_criterion(self, first, ...) end
   return node_of(nn.ModuleFromCriterion(self), list_of(first, ...))
end

-- JustElement maps {x} to x. JustTable maps x to {x}.
base.layer("JustElement", "", function(_, x) return x[1] end)
base.layer("JustTable", "", function(_, x) return {x} end)

--- Returns a node whose output is a table with the outputs of the given nodes. The table is nested
--- in the same way as `nodes`.
---@param nodes table
---@return table node
function M.nest(nodes)
   if is_node(nodes) then return nodes end
   local list = {}
   if type(nodes) ~= "table" then
      tlua.raise("nngraph.nest: expected a node or a table of nodes, got " .. classes.type(nodes))
   end
   for i, node in ipairs(nodes) do list[i] = M.nest(node) end
   if #list == 0 then tlua.raise "nngraph.nest: expected a node or a table of nodes" end
   return node_of(#list == 1 and nn.JustTable() or nn.Identity(), list)
end

-- Graphs ------------------------------------------------------------------------------------------

-- Returns the data of a graph's nodes as a list. Each node appears once, after its parents.
local function ordered(outdata, indata)
   local order, state = {}, {[indata] = "done"}
   local function visit(data)
      if state[data] == "open" then tlua.raise "nn.gModule: the graph has a cycle" end
      if state[data] then return end
      state[data] = "open"
      for _, parent in ipairs(data.mapindex) do visit(parent) end
      state[data] = "done"
      order[#order + 1] = data
   end
   for _, data in ipairs(outdata.mapindex) do visit(data) end
   return order, state
end

-- Returns the plan of a graph, which is a list of steps, one for each node. A step has either
-- `module` or `select`, the index of an element. Its inputs are given by `sources`, the positions
-- of earlier steps in the plan, or by `input`, the number of an input of the graph. The field
-- `ends` of the plan lists the positions of the outputs.
local function make_plan(self)
   local indata, outdata = self.innode.data, self.outnode.data
   local order, state = ordered(outdata, indata)
   local plan, at, is_input = {ends = {}, n_inputs = #indata.mapindex}, {}, {}
   for i, data in ipairs(indata.mapindex) do
      if not state[data] then
         tlua.raise(("nn.gModule: the input %d leads to no output"):format(i))
      end
      is_input[data] = i
   end
   for i, data in ipairs(order) do
      at[data] = i
      local sources = {}
      for _, parent in ipairs(data.mapindex) do
         if parent ~= indata then sources[#sources + 1] = at[parent] end
      end
      if #sources == 0 and not is_input[data] then
         tlua.raise "nn.gModule: a node without inputs is no input"
      end
      plan[i] = {module = data.module, select = data.selectindex, sources = sources,
         input = is_input[data], data = data}
   end
   for i, data in ipairs(outdata.mapindex) do plan.ends[i] = at[data] end
   return plan
end

-- Maps each graph to its plan. A graph that was read from a file gets its plan when it is first
-- used.
local plans = setmetatable({}, {__mode = "k"})

local function plan_of(self)
   local plan = plans[self]
   if not plan then
      if not (self.innode and self.outnode) then
         tlua.raise "nn.gModule: the graph has no nodes"
      end
      plan = make_plan(self)
      plans[self] = plan
   end
   return plan
end

local gModule = classes.class("nn.gModule", "nn.Container")

-- Returns the nodes of a graph, each after its parents. Links every node to the nodes that use its
-- output.
local function forward_nodes(plan, innode, outnode)
   local nodes, all = {}, {innode}
   for i, step in ipairs(plan) do
      nodes[i] = setmetatable({data = step.data, children = {}, id = i + 1}, Node)
      all[i + 1] = nodes[i]
   end
   for i, step in ipairs(plan) do
      for _, source in ipairs(step.sources) do
         table.insert(nodes[source].children, nodes[i])
      end
      if step.input then table.insert(innode.children, nodes[i]) end
   end
   for _, at in ipairs(plan.ends) do table.insert(nodes[at].children, outnode) end
   innode.id, outnode.id = 1, #all + 1
   all[#all + 1] = outnode
   for i, node in ipairs(all) do node.data.forwardNodeId, node.parents = i, nil end
   return all
end

--- Makes a module from a graph. `inputs` and `outputs` are the graph's input and output nodes.
function gModule:__init(inputs, outputs)
   nn.Container.__init(self)
   inputs, outputs = list_of(inputs), list_of(outputs)
   local innode, outnode = node_of(nil, {}, {data = {}, gradOutput = {}}), node_of(nil, {},
      {input = {}})
   for _, node in ipairs(inputs) do
      local map = innode.data.mapindex
      table.insert(map, node.data)
      map[node.data] = #map
   end
   for _, node in ipairs(outputs) do outnode:add(node) end
   self.innode, self.outnode, self.nInputs, self.verbose = innode, outnode, #inputs, false
   local plan = plan_of(self)
   for _, step in ipairs(plan) do
      if step.module then self:add(step.module) end
   end
   self.forwardnodes = forward_nodes(plan, innode, outnode)
   -- `fg` and `bg` are the graphs of the outputs and of the gradients, which graph.dot can draw.
   self.fg, self.bg = {nodes = self.forwardnodes}, {nodes = self.forwardnodes, is_backward = true}
   for _, node in ipairs(inputs) do node.data.mapindex[innode.data] = 1 end
end

--- Calls fn with each module and replaces the module by the result. Does this for the graph first,
--- and returns the result for the graph.
function gModule:replace(fn)
   local made, taken = fn(self), {}
   for i, module in ipairs(self.modules) do
      taken[module] = taken[module] or module:replace(fn)
      self.modules[i] = taken[module]
   end
   for _, step in ipairs(plan_of(self)) do
      if step.module then step.data.module = taken[step.module] or step.module end
   end
   plans[self] = nil
   passes.forget(self)
   records.forget(self)
   return made
end

local function inputs_of(step, values)
   if #step.sources == 1 then return values[step.sources[1]] end
   local list = {}
   for k, source in ipairs(step.sources) do list[k] = values[source] end
   return list
end

local function check_input(plan, input)
   if plan.n_inputs == 1 then
      if input == nil then tlua.raise "nn.gModule: expected an input, got nil" end
   elseif type(input) ~= "table" or #input ~= plan.n_inputs then
      tlua.raise(("nn.gModule: expected a table of %d inputs, got %s"):format(plan.n_inputs,
         type(input) == "table" and #input or classes.type(input)))
   end
end

-- In debug mode this is true. A graph that fails then writes a file in which the failed node is
-- red.
local debugging = false
local function show_failure(self, data)
   local attributes = data.annotations.graphAttributes
   data.annotations.graphAttributes = {style = "filled", fillcolor = "red"}
   local name = self.name or ("nngraph_%d_%d"):format(#self.innode.data.mapindex,
      #self.outnode.data.mapindex)
   pcall(M.graph.dot, self, name, name)
   data.annotations.graphAttributes = attributes
end

local function forward(self, input)
   local values, plan = {}, plan_of(self)
   self.given = {}
   for i, step in ipairs(plan) do
      local x
      if step.input then
         x = plan.n_inputs == 1 and input or input[step.input]
      else
         x = inputs_of(step, values)
      end
      self.given[i] = x
      if step.module then values[i] = records.forward(step.module, x)
      else values[i] = step.select and x[step.select] or x end
   end
   local outputs = {}
   for i, at in ipairs(plan.ends) do outputs[i] = values[at] end
   return #outputs == 1 and outputs[1] or outputs
end

local function update_output(self, plan, input)
   if passes.forward(self, plan, input) then
      self.given = nil
      records.forget(self)
   else
      self.output = records.run(self, forward, input)
   end
   return self.output
end

-- Finds the step that has failed by computing the steps one after another. This function is called
-- in debug mode only.
local function find_failure(self, plan, input)
   local values = {}
   for i, step in ipairs(plan) do
      local x = step.input and (plan.n_inputs == 1 and input or input[step.input])
         or inputs_of(step, values)
      local good = true
      if step.module then good, values[i] = pcall(step.module.updateOutput, step.module, x)
      else values[i] = step.select and x[step.select] or x end
      if not good then return show_failure(self, step.data) end
   end
end

function gModule:updateOutput(input)
   local plan = plan_of(self)
   check_input(plan, input)
   if not debugging then return update_output(self, plan, input) end
   local good, problem = pcall(update_output, self, plan, input)
   if not good then
      find_failure(self, plan, input)
      error(problem, 0)
   end
   return self.output
end

local add, filled = passes.add, passes.filled

local function back(self, method, input, gradOutput, scale)
   if gradOutput == nil then
      tlua.raise(("nn.gModule: %s: gradOutput: expected a tensor or a table, got nil"):format(
         method))
   end
   local grads, into, plan = {}, {}, plan_of(self)
   local given = self.given or passes.given(self, plan, input)
   for i, at in ipairs(plan.ends) do
      grads[at] = add(grads[at], #plan.ends == 1 and gradOutput or gradOutput[i])
   end
   for i = #plan, 1, -1 do
      local step, g = plan[i], grads[i]
      if g ~= nil then
         if step.module then
            step.module[method](step.module, given[i], filled(step.module.output, g), scale)
            g = step.module.gradInput
         end
         if step.input then into[step.input] = add(into[step.input], g) end
         for k, source in ipairs(step.sources) do
            local part = #step.sources == 1 and g or g[k]
            if step.select then part = {[step.select] = part} end
            grads[source] = add(grads[source], part)
         end
      end
   end
   return plan.n_inputs == 1 and into[1] or into
end

passes.back = back

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
   if passes.backward(self, plan_of(self), input, gradOutput, scale or 1)
      or records.backward_run(self, input, gradOutput, scale or 1) then
      return self.gradInput
   end
   self.gradInput = back(self, "backward", input, gradOutput, scale)
   return self.gradInput
end
function gModule:describe() return self.name or classes.type(self) end
function gModule:clearState()
   self.given = nil
   passes.forget(self)
   return nn.Container.clearState(self)
end

-- The DOT language --------------------------------------------------------------------------------

local function quoted(value) return '"' .. tostring(value):gsub('[\\"]', "\\%0") .. '"' end

local function describe(data)
   if data.selectindex then return "element " .. data.selectindex end
   if data.module then return tostring(data.module):match "^[^\n]*" end
   return data.data and "input" or data.input and "output" or "node"
end

-- Returns the attributes of a node in the DOT language, which encloses them in brackets.
local function attributes_of(node)
   local data = node.data
   local text = data.annotations.name or describe(data)
   if data.annotations.description then text = text .. "\n" .. data.annotations.description end
   local list = {("label=%q"):format(("%d: %s"):format(node.id, text)):gsub("\\\n", "\\n")}
   list = {(list[1])}
   local names = {}
   for name in pairs(data.annotations.graphAttributes or {}) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do
      list[#list + 1] = ("%s=%s"):format(name, quoted(data.annotations.graphAttributes[name]))
   end
   return "[" .. table.concat(list, " ") .. "]"
end

--- Formats a graph as text in the DOT language of Graphviz.
local function dot(graph, title)
   if classes.isTypeOf(graph, "nn.gModule") then graph = graph.fg end
   if type(graph) ~= "table" or type(graph.nodes) ~= "table" then
      tlua.raise("graph.dot: expected a gModule or its field fg or bg, got " .. type(graph))
   end
   local lines, by_data = {("digraph %q {"):format(title or "graph")}, {}
   for i, node in ipairs(graph.nodes) do by_data[node.data] = node.id or i end
   for i, node in ipairs(graph.nodes) do
      node.id = node.id or i
      lines[#lines + 1] = ("  n%d %s;"):format(node.id, attributes_of(node))
      for _, child in ipairs(node.children) do
         local from, to = node.id, by_data[child.data] or child.id
         if graph.is_backward then from, to = to, from end
         lines[#lines + 1] = ("  n%d -> n%d;"):format(from, to)
      end
   end
   lines[#lines + 1] = "}\n"
   return table.concat(lines, "\n")
end

M.graph = {}
--- Formats a graph as text in the DOT language, and returns the text. With a name, also writes
--- `name`.dot, and `name`.svg if Graphviz is installed.
function M.graph.dot(graph, title, name)
   local text = dot(graph, title)
   if name then
      local path = name .. ".dot"
      local failure = require "tlua.io.replace"(path, function(file)
         return select(2, file:write(text))
      end)
      if failure then error(("graph.dot: %s: %s"):format(path, failure), 2) end
      local function shell(word) return "'" .. word:gsub("'", "'\\''") .. "'" end
      os.execute(("dot -Tsvg -o %s %s 2>/dev/null"):format(shell(name .. ".svg"), shell(path)))
   end
   return text
end

--- Returns a graph's text, as graph.dot does, because no window can be opened.
function M.display(graph, title) return M.graph.dot(graph, title) end

--- Returns a line for each node of a graph: its number, its module and the numbers of its parents.
function M.simple_print(graph)
   if classes.isTypeOf(graph, "nn.gModule") then graph = graph.fg end
   local lines = {}
   for _, node in ipairs(graph.nodes) do
      local parents = {}
      for _, data in ipairs(node.data.mapindex) do
         parents[#parents + 1] = tostring(data.forwardNodeId)
      end
      lines[#lines + 1] = ("%d: %s (%s)"):format(node.id, describe(node.data),
         table.concat(parents, ", "))
   end
   return table.concat(lines, "\n")
end

--- Gives each node that is a local variable of the caller and has no name yet the name of this
--- variable.
function M.annotateNodes()
   for i = 1, math.huge do
      local name, value = debug.getlocal(2, i)
      if not name then return end
      if is_node(value) and not value.data.annotations.name then
         value.data.annotations.name = name
      end
   end
end

--- Sets the debug mode. In this mode, a graph that fails writes a file in which the failed node is
--- red, and the layers of graphs keep their gradInput.
function M.setDebug(enabled)
   debugging = enabled ~= false
   passes.keep_gradients(debugging)
end

rawset(_G, "graph", rawget(_G, "graph") or M.graph)
rawset(_G, "nngraph", rawget(_G, "nngraph") or M)

return M
