-- convolutions.lua - replaces convolutions and maxima of windows in a graph by calls that keep
-- images channels-last from layer to layer. The weights of the convolutions are packed once, when
-- the graph is changed. An addition and an activation that follow a convolution are computed in the
-- same pass over memory.

local torch = require "tlua"

local M = {}

local LANES <const>, VECTORS <const> = 16, 4

-- Maps activations whose smallest result is 0 to their largest results.
local highest <const> = {relu = math.huge, relu_ = math.huge, relu6 = 6.0, relu6_ = 6.0}

local function set(names)
   local list = {}
   for name in names:gmatch "%S+" do list[name] = true end
   return list
end

-- Operators that take inputs in any memory format. The elements of their results do not depend on
-- the format, and the results are never views.
local any_format <const> = set [[_conv2d_packed
   _max_pool2d_packed _quantized_conv2d add sub mul div relu relu6 silu gelu sigmoid tanh
   hardswish hardsigmoid leaky_relu elu batch_norm max_pool2d avg_pool2d adaptive_avg_pool2d
   conv2d cat mean]]
-- Operators that take inputs in any memory format, and change the first input in place.
local changing <const> = set [[add_ sub_ mul_ div_ relu_ relu6_ silu_ sigmoid_ tanh_ hardswish_
   hardsigmoid_ leaky_relu_ elu_]]

local makes_channels_last <const> = set "_conv2d_packed _max_pool2d_packed _quantized_conv2d"

local function is_call(node) return node and node.op == "call_function" end
local function is_node(value) return type(value) == "table" and rawget(value, "op") ~= nil end
local function pair(value) return type(value) == "table" and value or {value, value} end

-- Weights -----------------------------------------------------------------------------------------

-- Returns a tensor whose last dimension is padded with zeros to a multiple of the SIMD lanes.
local function padded(tensor)
   local rest = -tensor:size(-1) % LANES
   if rest == 0 then return tensor:contiguous() end
   local sizes = {table.unpack(tensor.shape)}
   sizes[#sizes] = rest
   return torch.cat({tensor, torch.zeros(sizes)}, #sizes)
end

-- Packs a weight (out, in, height, width) in the layout that the kernel tlk_conv_packed expects:
-- panels of at most VECTORS vectors of output channels.
local function packed(weight)
   local rows = padded(weight:permute(3, 4, 2, 1):reshape(-1, weight:size(1)))
   local vectors = rows:size(2) // LANES
   local panels = (vectors + VECTORS - 1) // VECTORS
   local list, at = {}, 1
   for i = 0, panels - 1 do
      local wide = (vectors // panels + (i < vectors % panels and 1 or 0)) * LANES
      list[#list + 1] = rows:narrow(2, at, wide):reshape(-1)
      at = at + wide
   end
   return torch.cat(list, 1)
end

-- Returns the packed weight and the bias of a convolution, and whether the convolution is
-- depthwise. Returns nil if packed kernels do not support the convolution.
local function weights_of(graph, node)
   local weight = node.args.weight
   local bias, groups = node.args.bias, node.args.groups or 1
   if weight.op ~= "get_attr" or bias and bias.op ~= "get_attr" then return nil end
   for _, constant in ipairs {weight, bias} do
      -- A call that uses the constant might change it, unless it is one of the operators above.
      for _, user in ipairs(constant:users()) do
         if not any_format[user.target] then return nil end
      end
   end
   weight = graph.constants_[weight.target]:detach()
   if weight.dtype ~= "float32" or weight:dim() ~= 4 or weight.device.type ~= "cpu" then
      return nil
   end
   local n = weight:size(1)
   bias = bias and graph.constants_[bias.target]:detach() or torch.zeros(n)
   if groups == 1 then return packed(weight), padded(bias), false end
   if groups == n and weight:size(2) == 1 and n >= LANES then
      return weight:reshape(n, -1):t():contiguous(), bias:contiguous(), true
   end
   return nil
end

-- Calls that follow -------------------------------------------------------------------------------

-- Returns the next call after a node. Constants between the two are skipped.
local function next_call(graph, node)
   local found = false
   for _, other in ipairs(graph.nodes) do
      if found and other.op ~= "get_attr" then return is_call(other) and other or nil end
      found = found or other == node
   end
end

-- Returns whether `user`, the next call after a node, is the only one that uses the node's result.
-- If `user` changes the result in place, later calls may use the result as well.
local function used_by(graph, node, user)
   if graph:_returns(node) then return false end
   for _, other in ipairs(node:users()) do
      if other ~= user and user.target:sub(-1) ~= "_" then return false end
   end
   return true
end

--- Merges a relu or relu6 that follows a call into the call. Returns the largest result of the
--- activation, or nil if no activation follows. With `only_relu`, relu6 is not merged.
function M.join_activation(graph, call, only_relu)
   local after = next_call(graph, call)
   local high = after and highest[after.target]
   if not high or only_relu and high < math.huge or after.args.self ~= call
      or not used_by(graph, call, after) then
      return nil
   end
   if after.target:sub(-1) ~= "_" then after:replace_all_uses_with(call) end
   graph:erase_node(after)
   return high
end

-- Returns whether no other value shares a node's memory before the call `user`.
local function is_own(graph, node, user)
   if not is_call(node) or not any_format[node.target] or graph:_returns(node) then return false end
   for _, other in ipairs(graph.nodes) do
      if other == user then return true end
      for _, value in next, other.args do
         if value == node and not any_format[other.target] and not changing[other.target] then
            return false
         end
      end
   end
   return false
end

-- Replaces a node by another one in all calls that come after the node `after`.
local function replace_later_uses(graph, node, after, by)
   local later = false
   for _, other in ipairs(graph.nodes) do
      for name, value in next, other.args do
         if later and value == node then other.args[name] = by end
         if later and type(value) == "table" and not is_node(value) then
            for i, item in next, value do
               if item == node then value[i] = by end
            end
         end
      end
      later = later or other == after
   end
end

--- Merges an addition that follows a call into the call: the other summand becomes the call's
--- argument `other`.
function M.join_sum(graph, call)
   local after = next_call(graph, call)
   if not after or after.target ~= "add" and after.target ~= "add_"
      or (after.args.alpha or 1) ~= 1 then
      return
   end
   local self, other = after.args.self, after.args.other
   if self == other or not is_node(self) or not is_node(other) then return end
   if self == call and used_by(graph, call, after) then
      call.args.other = other
      if after.target == "add" then after:replace_all_uses_with(call) end
   elseif other == call and #call:users() == 1 and not graph:_returns(call)
      and (after.target == "add" or is_own(graph, self, after)) then
      call.args.other = self
      if after.target == "add" then
         after:replace_all_uses_with(call)
      else
         replace_later_uses(graph, self, after, call)
      end
   else
      return
   end
   graph:erase_node(after)
end

-- Formats -----------------------------------------------------------------------------------------

--- Makes the results of packed convolutions row-major where another call might depend on their
--- memory format.
function M.restore_format(graph)
   local free = {}
   for _, node in ipairs {table.unpack(graph.nodes)} do
      local plain = node.op ~= "output" and (any_format[node.target] or changing[node.target])
      local made = {}
      local function row_major(value)
         if not made[value] then
            graph:inserting_before(node)
            made[value] = graph:create_node("call_function", "contiguous", {self = value})
            graph:inserting_before()
         end
         return made[value]
      end
      for name, value in next, node.args do
         if free[value] then
            free[node] = plain or node.target == "getitem" or nil
            if not plain and node.target ~= "getitem" then node.args[name] = row_major(value) end
         elseif type(value) == "table" and not is_node(value) then
            for i, item in next, value do
               if free[item] then
                  free[node] = plain or nil
                  if not plain then value[i] = row_major(item) end
               end
            end
         end
      end
      if makes_channels_last[node.target] then free[node] = true end
   end
end

-- Graphs ------------------------------------------------------------------------------------------

local function replace_convolution(graph, node)
   local weight, bias, depthwise = weights_of(graph, node)
   if not weight then return false end
   local name <const> = node.args.weight.target
   local sizes <const> = graph.constants_[name].shape
   local function constant(part, tensor)
      local try, i = name .. part, 1
      while graph.constants_[try] do try, i = ("%s%s_%d"):format(name, part, i), i + 1 end
      return graph:create_node("get_attr", try, tensor)
   end
   local given = {
      self = node.args.input, weight = constant(".packed", weight),
      bias = constant(".packed_bias", bias), channels = sizes[1],
      kernel = {sizes[3], sizes[4]}, low = -math.huge, high = math.huge,
      stride = pair(node.args.stride or 1), padding = pair(node.args.padding or 0),
      dilation = pair(node.args.dilation or 1), depthwise = depthwise,
   }
   graph:inserting_before(node)
   local call = graph:create_node("call_function", "_conv2d_packed", given)
   graph:inserting_before()
   node:replace_all_uses_with(call)
   graph:erase_node(node)
   M.join_sum(graph, call)
   local high = M.join_activation(graph, call)
   if high then call.args.low, call.args.high = 0.0, high end
   return true
end

-- Returns the number of channels of a node's result, or a lower bound of this number, if the result
-- is channels-last, otherwise 0.
local function channels_of(graph, node)
   if node.target == "_max_pool2d_packed" then return LANES end
   if node.target == "_conv2d_packed" then return node.args.channels end
   if node.target == "cat" then
      local least = math.huge
      for _, input in ipairs(node.args.tensors) do
         least = math.min(least, channels_of(graph, input))
      end
      return least < math.huge and least or 0
   end
   if node.target ~= "_quantized_conv2d" then return 0 end
   return graph.constants_[node.args.scales.target]:numel()
end

-- Replaces a call of max_pool2d whose input is channels-last and whose indices are not used.
local function replace_pool(graph, node)
   local users = node:users()
   if channels_of(graph, node.args.input) < LANES
      or not users[1] or users[1].target ~= "getitem" or users[1].args.index ~= 1
      or #users > 2 or users[2] and #users[2]:users() > 0 or graph:_returns(node)
      or graph:_returns(users[2]) then
      return
   end
   local kernel <const> = pair(node.args.kernel_size)
   graph:inserting_before(node)
   local call = graph:create_node("call_function", "_max_pool2d_packed", {
      self = node.args.input, kernel = kernel, stride = pair(node.args.stride or kernel),
      padding = pair(node.args.padding or 0), dilation = pair(node.args.dilation or 1),
      ceil_mode = node.args.ceil_mode or false,
   })
   graph:inserting_before()
   users[1]:replace_all_uses_with(call)
   for i = #users, 1, -1 do graph:erase_node(users[i]) end
   graph:erase_node(node)
end

-- Replaces a mean over whole channels-last images by a mean along the images' dimensions, which
-- reads channels-last memory directly.
local function replace_mean(graph, node)
   local size = pair(node.args.output_size)
   if channels_of(graph, node.args.input) == 0 or size[1] ~= 1 or size[2] ~= 1
      or node.args.input.args.out_scale then
      return
   end
   graph:inserting_before(node)
   local call = graph:create_node("call_function", "mean",
      {self = node.args.input, dim = {-2, -1}, keepdim = true})
   graph:inserting_before()
   node:replace_all_uses_with(call)
   graph:erase_node(node)
end

-- Costs -------------------------------------------------------------------------------------------

-- Returns whether conv2d computes a convolution by Winograd's method (tlk_winograd_fits).
local function by_winograd(node, weight, sizes, tiles)
   local stride, dilation = pair(node.args.stride or 1), pair(node.args.dilation or 1)
   return weight:size(3) == 3 and weight:size(4) == 3 and stride[1] == 1 and stride[2] == 1
      and dilation[1] == 1 and dilation[2] == 1 and math.min(weight:size(1), weight:size(2)) >= 16
      and tiles >= 16 and sizes[1] * sizes[3] * sizes[4] >= tiles * 8
      and tiles * weight:size(1) * weight:size(2) * 36 >= 1 << 22
end

-- Returns whether a graph whose nodes have shapes is faster with packed convolutions than with
-- conv2d, which has Winograd's method. The estimates are in nanoseconds; their factors were
-- measured on a processor with AVX-512.
local function is_worthwhile(graph)
   local packed_time, plain_time = 0, 0
   for _, node in ipairs(graph.nodes) do
      local sizes = node.meta.shape
      if node.target == "cat" and sizes then packed_time = packed_time + 0.5 * sizes:numel() end
      if node.target ~= "conv2d" or not sizes or node.args.weight.op ~= "get_attr" then
         goto continue
      end
      local weight, elements = graph.constants_[node.args.weight.target], sizes:numel()
      if (node.args.groups or 1) > 1 then
         if weight:size(2) == 1 then
            plain_time = plain_time + 0.2 * elements * weight[1]:numel()
         end
         goto continue
      end
      local tiles = sizes[1] * math.ceil(sizes[3] / 4) * math.ceil(sizes[4] / 4)
      local products, pairs_ = elements * weight[1]:numel(), weight:size(1) * weight:size(2)
      packed_time = packed_time + products / 60 + 0.3 * elements
      if by_winograd(node, weight, sizes, tiles) then
         local patches = tiles * (weight:size(1) + weight:size(2)) * 36
         plain_time = plain_time + tiles * pairs_ * 36 / 60 + 18 * pairs_ + patches
      else
         plain_time = plain_time + products / 55
      end
      plain_time = plain_time + 0.6 * elements
      ::continue::
   end
   return packed_time <= plain_time
end

--- Replaces the convolutions of a graph, and the max poolings and means between them. If the nodes
--- have shapes, this happens only if it is likely to make the graph faster. Returns the number of
--- replaced convolutions.
function M.replace(graph)
   local count = 0
   if not is_worthwhile(graph) then return 0 end
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if is_call(node) and node.target == "conv2d" and replace_convolution(graph, node) then
         count = count + 1
      end
   end
   for _, node in ipairs {table.unpack(graph.nodes)} do
      if is_call(node) and node.target == "max_pool2d" then replace_pool(graph, node) end
      if is_call(node) and node.target == "adaptive_avg_pool2d" then replace_mean(graph, node) end
   end
   M.restore_format(graph)
   return count
end

return M
