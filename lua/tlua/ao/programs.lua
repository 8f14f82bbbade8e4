-- programs.lua - quantize_: changes a program's linear layers and convolutions so that they
-- multiply 8-bit integers, or have weights of 8 or 4 bits.

local torch = require "tlua"
local args = require "tlua.args"
local convolutions = require "tlua.compile.convolutions"
local graph_of = require "tlua.export.graph"
local nested = require "tlua.export.nested"

local TITLE <const> = "ao.quantization.quantize_"
local LANES <const> = 16

-- Weights -----------------------------------------------------------------------------------------

-- Rounds a weight (n, depth) to integers from -127 to 127. Returns the integers, and a vector of n
-- scales, one for each row.
local function round_weight(weight)
   local largest = weight:abs():amax(2)
   local scales = torch.where(largest:eq(0), torch.ones_like(largest), largest / 127)
   local integers = (weight / scales:unsqueeze(2)):round():clamp(-127, 127)
   return integers, scales
end

-- Packs integers (n, positions, channels) into panels, each of 16 output channels, which the
-- kernels in src/ops/quantized read. n is the number of output channels.
local function in_panels(integers)
   local n, places, channels = table.unpack(integers.shape)
   local rows, depth = (n + LANES - 1) // LANES * LANES, (channels + 3) // 4 * 4
   local padded = torch.zeros(rows, places, depth)
   padded[{{1, n}, {}, {1, channels}}] = integers
   return padded:reshape(rows // LANES, LANES, places * depth // 4, 4):permute(1, 3, 2, 4)
      :contiguous():to "int8"
end

-- Packs the integers (n, height, width) of a depthwise weight, each group of four consecutive
-- elements of a column side by side.
local function in_quads(integers)
   local n, height, width = table.unpack(integers.shape)
   local quads = (height + 3) // 4
   local padded = torch.zeros(n, quads * 4, width)
   padded[{{}, {1, height}, {}}] = integers
   return padded:reshape(n, quads, 4, width):permute(4, 2, 1, 3):contiguous():to "int8"
end

-- Returns the tensors of a layer with 8-bit integers: the packed weight, and for each output
-- channel its scale and the sum of its integers.
local function quantized_layer(weight, depthwise)
   local n = weight:size(1)
   local flat = weight:detach():to "float32":reshape(n, weight:size(2), -1):transpose(2, 3)
   local places, channels = flat:size(2), flat:size(3)
   local integers, scales = round_weight(flat:reshape(n, -1))
   return {
      weight = depthwise and in_quads(integers:reshape(n, weight:size(3), weight:size(4)))
         or in_panels(integers:reshape(n, places, channels)),
      scales = scales, sums = integers:sum(2):to "int32",
   }
end

-- Weights in blocks of 32
-- ---------------------------------------------------------------------------

local BLOCK <const> = 32

-- Rounds scales (n, blocks) to float16. Returns the bytes (n, blocks, 2) of the rounded scales, and
-- the rounded scales in float32.
local function half_bytes(scales)
   local half = scales:to "float16":contiguous()
   local bits = half:view "int16":to "int32"
   return torch.stack({bits & 255, (bits >> 8) & 255}, 3):to "uint8", half:to "float32"
end

-- Returns the scales with each 0 replaced by 1, so that weights can be divided by them. Scales of
-- zero or tiny weights are 0 in float16.
local function divisors(scales)
   return torch.where(scales:eq(0), torch.ones_like(scales), scales)
end

-- Packs the rows of a weight in blocks of one scale and 32 integers of 8 bits (Q8_0).
local function blocks_of_8(weight)
   local n = weight:size(1)
   local blocks = weight:view(n, -1, BLOCK)
   local bytes, scales = half_bytes(blocks:abs():amax(3) / 127)
   local integers = (blocks / divisors(scales):unsqueeze(3)):round():clamp(-127, 127):to "int8"
   return torch.cat({bytes, integers:contiguous():view "uint8"}, 3):view(n, -1)
end

-- Packs the rows of a weight in blocks of one scale and 32 integers of 4 bits (Q4_0). The number
-- farthest from 0 in a block becomes -8.
local function blocks_of_4(weight)
   local n = weight:size(1)
   local blocks = weight:view(n, -1, BLOCK)
   local low, high = blocks:amin(3), blocks:amax(3)
   local farthest = torch.where(high:gt(-low), high, low)
   local bytes, scales = half_bytes(farthest / -8)
   local integers = ((blocks / divisors(scales):unsqueeze(3)):round() + 8):clamp(0, 15)
   local first, second = integers:narrow(3, 1, 16), integers:narrow(3, 17, 16)
   return torch.cat({bytes, (first + second * 16):to "uint8"}, 3):view(n, -1)
end

local packers <const> = {[8] = {blocks_of_8, "Q8_0"}, [4] = {blocks_of_4, "Q4_0"}}

-- Graphs ------------------------------------------------------------------------------------------

-- Returns whether a convolution computes each channel from that channel alone.
local function is_depthwise(graph, node)
   local weight = graph.constants_[node.args.weight.target]
   local groups = node.args.groups or 1
   return node.target == "conv2d" and weight:size(2) == 1 and groups > 1
      and groups == weight:size(1)
end

-- Returns whether a node is a layer that can be replaced by a layer of 8-bit integers. Depthwise
-- convolutions are replaced only if the range of their input is known (`is_static`), since
-- otherwise they would not become faster.
local function is_layer(graph, node, is_static)
   local weight = node.args.weight
   if node.op ~= "call_function" or not weight or weight.op ~= "get_attr" then return false end
   local tensor, bias = graph.constants_[weight.target], node.args.bias
   if tensor.dtype ~= "float32" or bias and bias.op ~= "get_attr" then return false end
   if node.target == "linear" or node.target == "linear_relu" then return tensor:dim() == 2 end
   return node.target == "conv2d"
      and (node.args.groups == 1 or is_static and is_depthwise(graph, node))
end

local function pair(value) return type(value) == "table" and value or {value, value} end

local function add_constant(graph, name, tensor)
   local try, i = name, 1
   while graph.constants_[try] do try, i = ("%s_%d"):format(name, i), i + 1 end
   return graph:create_node("get_attr", try, tensor)
end

-- Replaces a layer by one of 8-bit integers. `range` is {scale, zero point} of its input; {0, 0}
-- means that each call computes both.
local function replace_layer(graph, node, range)
   local name <const> = node.args.weight.target
   local weight = graph.constants_[name]
   local depthwise = is_depthwise(graph, node)
   local made = quantized_layer(weight, depthwise)
   local given = {
      self = node.args.input, scale = range[1], zero = range[2], bias = node.args.bias,
      relu = node.target == "linear_relu",
   }
   for _, part in ipairs {"weight", "scales", "sums"} do
      given[part] = add_constant(graph, ("%s.%s"):format(name, part), made[part])
   end
   local target = "_quantized_linear"
   if node.target == "conv2d" then
      target = "_quantized_conv2d"
      given.kernel, given.stride = {weight:size(3), weight:size(4)}, pair(node.args.stride)
      given.padding, given.dilation = pair(node.args.padding), pair(node.args.dilation)
      given.most, given.out_scale, given.out_zero, given.depthwise = 0.0, 0.0, 0, depthwise
      given.bias = given.bias or add_constant(graph, name .. ".bias", torch.zeros(weight:size(1)))
   end
   graph:inserting_before(node)
   local call = graph:create_node("call_function", target, given)
   graph:inserting_before()
   node:replace_all_uses_with(call)
   graph:erase_node(node)
   if target == "_quantized_conv2d" then convolutions.join_sum(graph, call) end
   local high = convolutions.join_activation(graph, call, target == "_quantized_linear")
   call.args.relu = call.args.relu or high ~= nil
   if high and high < math.huge then call.args.most = high end
end

-- Makes convolutions return integers of 8 bits in place of floating-point numbers. This is done for
-- each convolution whose result is used only by other convolutions, which all have the same fixed
-- scale and zero point of their inputs.
local function pass_bytes(graph)
   for _, node in ipairs(graph.nodes) do
      local users = node.target == "_quantized_conv2d" and not node.args.other
         and not graph:_returns(node) and node:users() or {}
      local first, same = users[1], #users > 0
      for _, user in ipairs(users) do
         same = same and user.target == "_quantized_conv2d" and user.args.other ~= node
            and user.args.scale == first.args.scale and user.args.zero == first.args.zero
      end
      if same and first.args.scale > 0 then
         node.args.out_scale, node.args.out_zero = first.args.scale, first.args.zero
      end
   end
end

-- Replaces a linear layer by one whose weight is packed in blocks of 8-bit or 4-bit integers.
local function replace_weight(graph, node, bits)
   local pack, kind = table.unpack(packers[bits])
   local name <const> = node.args.weight.target
   local packed = add_constant(graph, name .. ".packed", pack(graph.constants_[name]:contiguous()))
   graph:inserting_before(node)
   local call = graph:create_node("call_function", "packed_linear",
      {input = node.args.input, weight = packed, kind = kind})
   if node.args.bias then
      call = graph:create_node("call_function", "add",
         {self = call, other = node.args.bias, alpha = 1})
   end
   if node.target == "linear_relu" then
      call = graph:create_node("call_function", "relu", {self = call})
   end
   graph:inserting_before()
   node:replace_all_uses_with(call)
   graph:erase_node(node)
end

-- Calibration -------------------------------------------------------------------------------------

-- Returns {scale, zero point} of a range, extended to contain 0, which is represented exactly.
local function scale_of(low, high)
   low, high = math.min(low, 0), math.max(high, 0)
   if high == low then return {1.0, 0} end
   local scale = torch.tensor((high - low) / 255):item()
   return {scale, math.max(0, math.min(255, math.floor(-low / scale + 0.5)))}
end

-- Returns the layers of a graph that quantize_ replaces. `skip` is a set of names of weights whose
-- layers stay unchanged.
local function layers_of(graph, skip, is_static)
   local layers = {}
   for _, node in ipairs(graph.nodes) do
      if is_layer(graph, node, is_static) and not skip[node.args.weight.target] then
         layers[#layers + 1] = node
      end
   end
   return layers
end

-- Runs the graph with the calibration's inputs, and returns {scale, zero point} of each layer's
-- input. The graph gets a clone of each layer's input, since a later call may write to the input.
local function calibrate(graph, layers, calibration)
   local low, high, wanted = {}, {}, {}
   for k, node in ipairs(layers) do
      graph:inserting_before(node)
      wanted[k] = graph:create_node("call_function", "clone", {self = node.args.input})
   end
   for i, set in ipairs(calibration) do
      local tensors = {}
      nested.flatten(TITLE, ("calibration.%d"):format(i), torch.is_tensor(set) and {set} or set,
         tensors)
      for k, values in ipairs(graph:evaluate_(wanted, tensors)) do
         if values:numel() > 0 then
            local least, most = values:min():item(), values:max():item()
            if least - least ~= 0 or most - most ~= 0 then
               torch.raise(("%s: calibration: expected finite numbers in the inputs of all layers, "
                  .. "got others in that of %s for inputs %d"):format(TITLE,
                  layers[k].args.weight.target, i))
            end
            low[k], high[k] = math.min(low[k] or least, least), math.max(high[k] or most, most)
         end
      end
   end
   local ranges = {}
   for k in ipairs(layers) do ranges[k] = low[k] and scale_of(low[k], high[k]) or {0.0, 0} end
   return ranges
end

local kinds <const> = {dynamic = true, static = true, weight_only = true}

--- Changes a program so that its linear layers and ungrouped 2-D convolutions multiply 8-bit
--- integers, and with the kind "static" depthwise convolutions as well. Weights get one scale for
--- each output channel. Inputs get a scale for each row or image, computed in each call
--- ("dynamic"), or one scale from runs with example inputs ("static").
--- Batch norm in evaluation mode is first merged into the layer before it. The kind "weight_only"
--- changes only linear layers whose input size is a multiple of 32: their weights become integers
--- of 8 or 4 bits in blocks of 32, each with a scale (GGUF's Q8_0 and Q4_0). Programs must be on
--- the CPU; the kernels are fastest with AVX-512 VNNI. Results are close to the original ones, but
--- not equal. A static program replaces NaN by a finite number, because the bytes between its
--- layers cannot represent NaN.
---
---     local model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()):eval()
---     local x = torch.randn(2, 8)
---     local program = torch.export(model, {x})
---     local before = program(x)
---     torch.ao.quantization.quantize_(program)
---     print((program(x) - before):abs():max():item() < 0.05)
---     --> true
---@param program export.Program  a program that torch.export has returned
---@param config? {kind: string, bits: integer, calibration: table, skip: string[]}  kind:
--- "dynamic", the default, "static" or "weight_only"; bits: 8 or 4, for "weight_only"; calibration:
--- for "static", a list of example calls, each a tensor or a list of the arguments; skip: names of
--- weights, whose layers stay unchanged
---@return export.Program program  the same program
local function quantize_(program, config)
   local handle = type(program) == "table" and rawget(program, "graph_")
   if not handle or program.step_ then
      args.refuse(TITLE, "program", "a program that torch.export has made", program)
   end
   args.check_options(TITLE, config, "kind", "bits", "calibration", "skip")
   config = config or {}
   local kind, calibration = config.kind or "dynamic", config.calibration
   if not kinds[kind] then
      args.refuse(TITLE, "kind", '"dynamic", "static" or "weight_only"', kind)
   end
   local bits = config.bits or 8
   if bits ~= 8 and (bits ~= 4 or kind ~= "weight_only") then
      args.refuse(TITLE, "bits", kind == "weight_only" and "8 or 4" or "8", bits)
   end
   if (kind == "static") ~= (calibration ~= nil) or calibration ~= nil
      and (type(calibration) ~= "table" or torch.is_tensor(calibration) or #calibration == 0) then
      args.refuse(TITLE, "calibration", kind == "static" and "a list of at least one input"
         or 'nil unless the kind is "static"', calibration)
   end
   if program.device.type ~= "cpu" then
      args.refuse(TITLE, "program", "a program on the CPU", tostring(program.device))
   end
   if program.training then
      args.refuse(TITLE, "program", "a program of a model in evaluation mode", "training mode")
   end
   local skip = {}
   for _, name in ipairs(config.skip or {}) do skip[name] = true end
   local _ <close> = torch.no_grad()
   handle = require "tlua.compile.optimize"(handle, "norms") or handle
   local graph = graph_of(handle)
   local layers = layers_of(graph, skip, kind == "static")
   if kind == "weight_only" then
      local linear = {}
      for _, node in ipairs(layers) do
         local weight = graph.constants_[node.args.weight.target]
         if weight:dim() == 2 and weight:size(2) % BLOCK == 0 then linear[#linear + 1] = node end
      end
      layers = linear
   end
   if #layers == 0 then
      torch.raise(TITLE .. ": program: expected linear layers or 2-D convolutions of float32 with "
         .. "constant weights, got none")
   end
   local ranges
   if calibration then
      local copy = graph_of(handle)
      ranges = calibrate(copy, layers_of(copy, skip, true), calibration)
   end
   for k, node in ipairs(layers) do
      if kind == "weight_only" then
         replace_weight(graph, node, bits)
      else
         replace_layer(graph, node, ranges and ranges[k] or {0.0, 0})
      end
   end
   if kind ~= "weight_only" then
      pass_bytes(graph)
      convolutions.replace(graph)
   end
   graph:eliminate_dead_code()
   rawset(program, "graph_", graph:program().graph_)
   return program
end

return {quantize_ = quantize_}
