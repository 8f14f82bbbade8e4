-- control.lua - operators for branches, loops, sequences and optional values.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local M = {}

local function truth(node, x, name)
   if not torch.is_tensor(x) or x:numel() ~= 1 then
      node:fail("%s: expected one truth value, got %s", name, values.describe(x))
   end
   local value = x:item()
   return value ~= false and value ~= 0
end

function M.If(node, condition)
   local branch = truth(node, condition, "cond") and "then_branch" or "else_branch"
   local graph = node:graph(branch)
   if #graph.outputs < #node.outputs then
      node:fail("attribute %s: %d outputs, but the node has %d", branch, #graph.outputs,
         #node.outputs)
   end
   return table.unpack(node:run(graph, {}), 1, #graph.outputs)
end

-- Returns the dtype and the sizes that a body declares for an output. Sizes without a number are 0.
local function declared(body, i)
   local kind = body.output_types[i] and body.output_types[i].tensor_type or {}
   local dtype, sizes = schema.dtypes[kind.elem_type or 0], {}
   for k, size in ipairs(kind.shape and kind.shape.dim or {}) do sizes[k] = size.dim_value or 0 end
   return dtype and values.element_size(dtype) and dtype or "float32", sizes
end

-- Concatenates the results of all steps for the body's output i along the new axis `axis`, counted
-- from 0. If there were no steps, the result is empty, and has the dtype and sizes that the body
-- declares.
local function join(node, body, i, list, axis)
   if #list > 0 then return torch.stack(list, node:dim(axis, list[1]:dim() + 1)) end
   local dtype, sizes = declared(body, i)
   table.insert(sizes, node:dim(axis, #sizes + 1), 0)
   return torch.empty(sizes, {dtype = dtype})
end

function M.Loop(node, most, condition, ...)
   local body = node:graph "body"
   local state, n = {...}, #node.inputs - 2
   local limit = most and most:item() or math.maxinteger
   local go = condition == nil or truth(node, condition, "cond")
   if #body.inputs ~= n + 2 then
      node:fail("attribute body: expected %d inputs, got %d", n + 2, #body.inputs)
   end
   if #body.outputs < n + 1 then
      node:fail("attribute body: expected at least %d outputs, got %d", n + 1, #body.outputs)
   end
   local scans = {}
   for i = 1, #body.outputs - n - 1 do scans[i] = {} end
   local step, budget = 0, node.scope[support.BUDGET]
   while go and step < limit do
      if budget then
         budget.steps = budget.steps + 1
         if budget.steps > budget.most then
            node:fail("more than %d loop steps in one call; see max_loop_steps of onnx.load",
               budget.most)
         end
      end
      local inputs = {support.scalar(step, "int64"), support.scalar(true, "bool")}
      for i = 1, n do inputs[i + 2] = state[i] end
      local outputs = node:run(body, inputs)
      go = outputs[1] == nil or truth(node, outputs[1], "the body's condition")
      for i = 1, n do state[i] = outputs[i + 1] end
      for i, list in ipairs(scans) do list[#list + 1] = outputs[n + 1 + i] end
      step = step + 1
   end
   local results = table.move(state, 1, n, 1, {})
   for i, list in ipairs(scans) do results[n + i] = join(node, body, n + 1 + i, list, 0) end
   return table.unpack(results, 1, n + #scans)
end

-- Returns the outputs of a Scan over one example.
local function scan(node, body, count, state, sequences, axes)
   local n = #state
   local steps
   for i, x in ipairs(sequences) do
      local size = x:size(axes.inputs[i])
      steps = steps or size
      if steps ~= size then node:fail("sequences of %d and %d steps", steps, size) end
   end
   local lists = {}
   for i = 1, #body.outputs - n do lists[i] = {} end
   for step = 1, steps do
      local inputs = table.move(state, 1, n, 1, {})
      for i = 1, count do
         local at = axes.back[i] and steps - step + 1 or step
         inputs[n + i] = sequences[i]:select(axes.inputs[i], at)
      end
      local outputs = node:run(body, inputs)
      state = table.move(outputs, 1, n, 1, {})
      for i, list in ipairs(lists) do
         table.insert(list, axes.back_out[i] and 1 or #list + 1, outputs[n + i])
      end
   end
   local results = table.move(state, 1, n, 1, {})
   for i, list in ipairs(lists) do
      results[n + i] = join(node, body, n + i, list, axes.outputs[i])
   end
   return results
end

-- In version 8 of Scan, the first dimension of all inputs and outputs is the batch, so each example
-- is scanned separately.
local function scan_batches(node, body, count, inputs)
   local first = table.remove(inputs, 1)
   if first then node:fail "sequence_lens is not supported" end
   local n = #inputs - count
   local batches = {}
   local directions = node:ints("directions", {})
   for b = 1, inputs[1]:size(1) do
      local state, sequences = {}, {}
      local axes = {inputs = {}, back = {}, back_out = {}, outputs = {}}
      for i = 1, n do state[i] = inputs[i]:select(1, b) end
      for i = 1, count do
         sequences[i] = inputs[n + i]:select(1, b)
         axes.inputs[i], axes.back[i] = 1, directions[i] == 1
      end
      for i = 1, #body.outputs - n do axes.outputs[i] = 0 end
      batches[b] = scan(node, body, count, state, sequences, axes)
   end
   local results = {}
   for i = 1, #body.outputs do
      local list = {}
      for b, batch in ipairs(batches) do list[b] = batch[i] end
      results[i] = torch.stack(list, 1)
   end
   return table.unpack(results)
end

function M.Scan(node, ...)
   local body, count = node:graph "body", node:need("int", "num_scan_inputs")
   local inputs = table.pack(...)
   if count < 1 or count > inputs.n then
      node:fail("attribute num_scan_inputs: expected 1 to %d, got %d", inputs.n, count)
   end
   if node.version < 9 then
      local list = {table.unpack(inputs, 2, inputs.n)}
      table.insert(list, 1, inputs[1] or false)
      return scan_batches(node, body, count, list)
   end
   local n = inputs.n - count
   local axes = {inputs = {}, back = {}, back_out = {}, outputs = {}}
   local given = node:ints("scan_input_axes", {})
   local directions = node:ints("scan_input_directions", {})
   local state, sequences = table.move(inputs, 1, n, 1, {}), {}
   for i = 1, count do
      sequences[i] = inputs[n + i]
      axes.inputs[i] = node:dim(given[i] or 0, sequences[i]:dim())
      axes.back[i] = directions[i] == 1
   end
   given = node:ints("scan_output_axes", {})
   directions = node:ints("scan_output_directions", {})
   for i = 1, #body.outputs - n do
      axes.outputs[i], axes.back_out[i] = given[i] or 0, directions[i] == 1
   end
   return table.unpack(scan(node, body, count, state, sequences, axes), 1, #body.outputs)
end

-- Sequences --------------------------------------------------------------------------------------

function M.SequenceEmpty() return values.sequence {} end
function M.SequenceConstruct(_, ...) return values.sequence {...} end
function M.SequenceLength(_, list) return support.scalar(#list, "int64") end

-- Converts a position of the standard, which counts from 0, or from the end if it is negative, to a
-- position from 1 to n.
local function place(node, position, n)
   local i = position:item()
   if i < -n or i >= n then node:fail("position: expected %d to %d, got %d", -n, n - 1, i) end
   return i < 0 and i + n + 1 or i + 1
end

function M.SequenceAt(node, list, position) return list[place(node, position, #list)] end

function M.SequenceInsert(node, list, value, position)
   local copy = values.sequence(list)
   table.insert(copy, position and place(node, position, #list + 1) or #list + 1, value)
   return copy
end

function M.SequenceErase(node, list, position)
   local copy = values.sequence(list)
   if #copy == 0 then node:fail "the sequence is empty" end
   table.remove(copy, position and place(node, position, #list) or #list)
   return copy
end

function M.SplitToSequence(node, x, split)
   local dim = node:dim(node:int("axis", 0), x:dim())
   local size = x:size(dim)
   if not split then
      local parts = {}
      for i = 1, size do
         parts[i] = node:int("keepdims", 1) ~= 0 and x:narrow(dim, i, 1) or x:select(dim, i)
      end
      return values.sequence(parts)
   end
   local lengths = node:list(split, nil, "split")
   if split:dim() == 0 then
      local length = lengths[1]
      if length < 1 then node:fail("split: expected at least 1, got %d", length) end
      lengths = {}
      for first = 0, size - 1, length do lengths[#lengths + 1] = math.min(length, size - first) end
   end
   local sum = 0
   for _, n in ipairs(lengths) do sum = sum + n end
   if sum ~= size then
      node:fail("split: {%s} does not add up to %d", table.concat(lengths, ", "), size)
   end
   return values.sequence(x:split(lengths, dim))
end

function M.ConcatFromSequence(node, list)
   if #list == 0 then node:fail "the sequence is empty" end
   local new = node:int("new_axis", 0) ~= 0
   local dim = node:dim(node:need("int", "axis"), list[1]:dim() + (new and 1 or 0))
   local parts = table.move(list, 1, #list, 1, {})
   return new and torch.stack(parts, dim) or torch.cat(parts, dim)
end

function M.SequenceMap(node, list, ...)
   local body, others, n = node:graph "body", {...}, select("#", ...)
   local results = {}
   for k = 1, #body.outputs do results[k] = values.sequence {} end
   for i = 1, #list do
      local inputs = {list[i]}
      for k = 1, n do
         local other = others[k]
         inputs[k + 1] = values.is_sequence(other) and other[i] or other
      end
      for k, value in ipairs(node:run(body, inputs)) do results[k][i] = value end
   end
   return table.unpack(results)
end

-- Optional values --------------------------------------------------------------------------------

function M.Optional(_, x) return x end
function M.OptionalHasElement(_, x) return support.scalar(x ~= nil, "bool") end
function M.OptionalGetElement(node, x)
   if x == nil then node:fail "the optional value is empty" end
   return x
end

return M
