-- optimize.lua - makes a program faster for fixed values of its constants, for torch.compile and
-- torch.export: dropout in evaluation mode is removed; batch norm is merged into the convolution or
-- linear layer before it; calls whose arguments are all constants are computed once; equal and
-- unused calls are removed; convolutions get packed weights (convolutions.lua); activations are
-- merged into the linear layer before them, or computed in place.

local torch = require "tlua"
local convolutions = require "tlua.compile.convolutions"
local graph_of = require "tlua.export.graph"

local function set(names)
   local list = {}
   for name in names:gmatch "%S+" do list[name] = true end
   return list
end

-- Operators whose results never share memory with their arguments.
local fresh <const> = set [[conv1d conv2d conv3d _conv2d_packed linear linear_relu linear_gelu
   batch_norm layer_norm group_norm add sub mul div true_divide matmul mm bmm addmm relu gelu silu
   sigmoid tanh softmax embedding max_pool2d avg_pool2d adaptive_avg_pool2d cat clone neg exp log
   rsqrt sqrt pow zeros ones arange full mean sum]]

-- Operators whose results may be views of their arguments.
local views <const> = set [[t transpose permute view reshape expand select narrow slice unsqueeze
   squeeze squeeze_dim detach as_strided flatten unflatten contiguous view_as expand_as movedim
   swapaxes getitem chunk split to to_dtype]]

-- The largest number of elements of a result that is computed once and stored.
local MOST <const> = 1 << 22

local function is_random(node)
   for _, parameter in ipairs(node.results and torch._operator_parameters(node.target) or {}) do
      if parameter.kind == "GENERATOR" then return true end
   end
   for _, part in ipairs {"drop", "rand", "bernoulli", "multinomial", "normal_", "uniform",
      "poisson", "rrelu", "lstm", "gru", "rnn", "attention", "exponential"} do
      if node.target:find(part, 1, true) then return true end
   end
   return false
end

local function is_call(node, ...)
   if not node or node.op ~= "call_function" then return false end
   for _, target in ipairs {...} do
      if node.target == target then return true end
   end
   return false
end

local function is_node(value) return type(value) == "table" and rawget(value, "op") ~= nil end
local function is_constant(value) return is_node(value) and value.op == "get_attr" end

-- Calls fn with each node among the arguments of a node.
local function each_input(node, fn)
   for _, value in next, node.args do
      if is_node(value) then
         fn(value)
      elseif type(value) == "table" then
         for _, item in next, value do
            if is_node(item) then fn(item) end
         end
      end
   end
end

local function writes(node) return node.op == "call_function" and node.target:sub(-1) == "_" end

local function constant(graph, name, tensor)
   local try, i = name, 1
   while graph.constants_[try] do try, i = ("%s_%d"):format(name, i), i + 1 end
   return graph:create_node("get_attr", try, tensor)
end

-- Dropout -----------------------------------------------------------------------------------------

-- Removes calls of dropout in evaluation mode, because such a call returns its argument unchanged.
local function remove_dropout(graph)
   local count = 0
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if is_call(node, "dropout") and not node.args.training then
         node:replace_all_uses_with(node.args.self)
         graph:erase_node(node)
         count = count + 1
      end
   end
   return count
end

-- Batch norm --------------------------------------------------------------------------------------

local function all_constants(node, ...)
   for _, name in ipairs {...} do
      if node.args[name] ~= nil and not is_constant(node.args[name]) then return false end
   end
   return true
end

-- Merges a batch norm in evaluation mode into the preceding convolution or linear layer. Returns
-- whether this was possible.
local function fold_norm(graph, norm)
   local before = norm.args.input
   if norm.args.training or not norm.args.running_mean or not norm.args.running_var
      or not is_call(before, "conv1d", "conv2d", "conv3d", "linear") or #before:users() ~= 1
      or graph:_returns(before) or not all_constants(before, "weight", "bias")
      or not all_constants(norm, "running_mean", "running_var", "weight", "bias") then
      return false
   end
   local function value(node)
      return node and graph.constants_[node.target]:detach():to "float64" or nil
   end
   local weight <const> = graph.constants_[before.args.weight.target]
   if weight.is_complex and weight:is_complex() then return false end
   local mean, var = value(norm.args.running_mean), value(norm.args.running_var)
   local scale = (var + norm.args.eps):rsqrt()
   if norm.args.weight then scale = scale * value(norm.args.weight) end
   local bias = value(before.args.bias)
   bias = (bias and bias - mean or -mean) * scale
   if norm.args.bias then bias = bias + value(norm.args.bias) end
   local sizes = {scale:size(1)}
   for i = 2, weight:dim() do sizes[i] = 1 end
   local name <const> = before.args.weight.target
   local folded = (weight:detach():to "float64" * scale:reshape(sizes)):to(weight.dtype)
   if not folded:isfinite():all():item() or not bias:isfinite():all():item() then return false end
   before.args.weight = constant(graph, name .. ".folded", folded)
   before.args.bias = constant(graph, name .. ".folded_bias", bias:to(weight.dtype))
   norm:replace_all_uses_with(before)
   graph:erase_node(norm)
   return true
end

local function fold_norms(graph)
   local count = 0
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if is_call(node, "batch_norm") and fold_norm(graph, node) then count = count + 1 end
   end
   return count
end

-- Constants ---------------------------------------------------------------------------------------

-- Returns the set of the nodes whose memory some call of the graph may change.
local function changed_nodes(graph)
   local changed = {}
   local function mark(node)
      if changed[node] then return end
      changed[node] = true
      if not fresh[node.target] then each_input(node, mark) end
   end
   for _, node in ipairs(graph.nodes) do
      if writes(node) then each_input(node, mark) end
   end
   return changed
end

local function is_size(value)
   local meta = getmetatable(value)
   return meta and meta.__name == "export.Size"
end

-- Returns whether an argument of a node is computed from a dynamic size.
local function has_sizes(node)
   for _, value in next, node.args do
      if type(value) == "table" and not is_node(value) then
         if is_size(value) then return true end
         for _, item in next, value do
            if is_size(item) then return true end
         end
      end
   end
   return false
end

local function fold_constants(graph)
   local changed, foldable, wanted = changed_nodes(graph), {}, {}
   for _, node in ipairs(graph.nodes) do
      if node.op == "call_function" and node.results == 1 and not writes(node)
         and not changed[node] and not is_random(node) and not graph:_returns(node)
         and not has_sizes(node) then
         local all, any = true, false
         each_input(node, function(input)
            all, any = all and (input.op == "get_attr" or foldable[input] == true), true
         end)
         foldable[node] = all and (any or fresh[node.target]) or nil
      end
   end
   for _, node in ipairs(graph.nodes) do
      if foldable[node] and not views[node.target] then
         local used = false
         for _, user in ipairs(node:users()) do used = used or not foldable[user] end
         if used then wanted[#wanted + 1] = node end
      end
   end
   if #wanted == 0 then return 0 end
   local count = 0
   for i, tensor in ipairs(graph:evaluate_(wanted, {}, foldable)) do
      if tensor:numel() <= MOST then
         local made = constant(graph, "folded_" .. wanted[i].name, tensor)
         wanted[i]:replace_all_uses_with(made)
         count = count + 1
      end
   end
   return count
end

-- Equal calls -------------------------------------------------------------------------------------

-- Returns a text that is the same for equal arguments. `numbers` maps nodes to integers.
local function text_of(value, numbers)
   if is_node(value) then return "#" .. numbers[value] end
   if type(value) ~= "table" then return math.type(value) == "float" and ("%a"):format(value)
      or tostring(value) end
   local list = {tostring(getmetatable(value) and value or "{")}
   for _, item in ipairs(value) do list[#list + 1] = text_of(item, numbers) end
   return table.concat(list, ",")
end

local function join_equal(graph)
   local count, known, numbers = 0, {}, {}
   for i, node in ipairs(graph.nodes) do numbers[node] = i end
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if node.results == 1 and node.op == "call_function" and not graph:_returns(node) then
         local keys, list = {}, {node.target}
         for key in next, node.args do keys[#keys + 1] = key end
         table.sort(keys)
         for _, key in ipairs(keys) do
            list[#list + 1] = key .. "=" .. text_of(node.args[key], numbers)
         end
         local text = table.concat(list, ";")
         if known[text] then
            node:replace_all_uses_with(known[text])
            graph:erase_node(node)
            count = count + 1
         else
            known[text] = node
         end
      end
   end
   return count
end

-- Activations -------------------------------------------------------------------------------------

local joined <const> = {relu = "linear_relu", relu_ = "linear_relu", gelu = "linear_gelu"}
local in_place <const> = set "relu sigmoid tanh"

-- Returns the relu_ that directly follows a node and changes its result; nil if there is none.
local function relu_after(graph, node)
   for i, other in ipairs(graph.nodes) do
      if other == node then
         local following = graph.nodes[i + 1]
         return is_call(following, "relu_") and following.args.self == node and following or nil
      end
   end
end

local function join_linear(graph, node)
   local users = node:users()
   local after = relu_after(graph, node) or #users == 1 and users[1]
   if not after or not joined[after.target] or after.args.self ~= node
      or graph:_returns(node) then
      return false
   end
   if after.target ~= "relu_" and #users ~= 1 then return false end
   graph:inserting_before(after)
   local given = {input = node.args.input, weight = node.args.weight, bias = node.args.bias}
   if after.target == "gelu" then given.approximate = after.args.approximate or "none" end
   local made = graph:create_node("call_function", joined[after.target], given)
   graph:inserting_before()
   after:replace_all_uses_with(made)
   node:replace_all_uses_with(made)
   after.args.self = node
   graph:erase_node(after)
   graph:erase_node(node)
   return true
end

local function write_in_place(graph, node)
   local input = node.args.self
   if input.op ~= "call_function" or not fresh[input.target] or input.results ~= 1
      or #input:users() ~= 1 or graph:_returns(input) or graph:_returns(node) then
      return false
   end
   node:replace_all_uses_with(input)
   -- In a call that works in place, the result is the changed argument.
   node.target, node.results = node.target .. "_", 0
   return true
end

local function join_activations(graph)
   local count = 0
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if is_call(node, "linear") and join_linear(graph, node) then count = count + 1 end
   end
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if node.op == "call_function" and in_place[node.target] and write_in_place(graph, node) then
         count = count + 1
      end
   end
   return count
end

local function has(graph, test)
   for _, node in ipairs(graph.nodes) do
      if test(node) then return true end
   end
   return false
end

local function is_convolution(node) return is_call(node, "conv2d") end

-- Returns whether a run may change inputs or constants.
local function may_change_state(graph)
   local changed = changed_nodes(graph)
   return has(graph, function(node)
      return node.args.training == true or node.op ~= "call_function" and changed[node]
   end)
end

-- Removes the constants that no call uses.
local function drop_constants(graph)
   local count = 0
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if node.op == "get_attr" and #node:users() == 0 then
         graph:erase_node(node)
         count = count + 1
      end
   end
   return count
end

local function is_mark(node)
   return node.op == "call_function" and (node.target:find "^cond_" or node.target:find "^loop_")
end

--- Returns an optimized program, or nil if there is nothing to optimize. The second result says
--- whether constants were computed from other constants. If so, the program is valid only while
--- those other constants keep their values.
---@param handle userdata  a program
---@param only? "all"|"norms"|"row-major"  "norms" only removes dropout and merges batch norms;
--- "row-major" leaves memory formats as they are; by default, all optimizations are made
---@param example? Tensor[]  inputs, whose sizes show whether packed convolutions are faster
---@return userdata? handle
---@return boolean? uses_values
return function(handle, only, example)
   local graph = graph_of(handle)
   if has(graph, is_mark) then return nil end
   if example and has(graph, is_convolution) and not may_change_state(graph) then
      graph:propagate(table.unpack(example))
   end
   local dropped = remove_dropout(graph)
   local random, effects = has(graph, is_random), has(graph, writes)
   local folded = fold_norms(graph)
   if only == "norms" then return dropped + folded > 0 and graph:program().graph_ or nil end
   folded = folded + fold_constants(graph)
   local count = dropped + folded
   if not random and not effects then count = count + join_equal(graph) end
   local replaced = only == "row-major" and 0 or convolutions.replace(graph)
   folded, count = folded + replaced, count + replaced
   count = count + join_activations(graph)
   count = count + (random and drop_constants or graph.eliminate_dead_code)(graph)
   if count == 0 then return nil end
   return graph:program().graph_, folded > 0
end
