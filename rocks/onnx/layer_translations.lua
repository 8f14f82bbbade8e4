-- layer_translations.lua - translates the operators of layers, and losses, to ONNX. See
-- translations.lua.

local torch = require "tlua"
local support = require "tlua.onnx.support"
local base = require "tlua.onnx.translations"
local shapes = require "tlua.onnx.shape_translations"
local pools = require "tlua.onnx.pool_translations"
local wire = require "tlua.onnx.wire"

local op <const>, zero_based <const> = base._op, shapes._zero_based
local batched <const>, twice <const> = pools._batched, pools._twice

local M = {}

local function float(x) return x + 0.0 end

-- Products ----------------------------------------------------------------------------------------

function M.linear(b, a)
   local x = a.input
   if b:rank(x) == 2 and a.bias and b:rank(a.bias) == 1 and b:rank(a.weight) == 2 then
      return b:node("Gemm", {x, a.weight, a.bias}, {transB = 1})
   end
   local weight = b:rank(a.weight) == 2 and b:transpose(a.weight, {1, 0}) or a.weight
   local y = op(b, "MatMul", x, weight)
   return a.bias and op(b, "Add", y, a.bias) or y
end
M.linear_relu = function(b, a) return op(b, "Relu", M.linear(b, a)) end
M.linear_gelu = function(b, a)
   return base.gelu(b, {self = M.linear(b, a), approximate = a.approximate})
end

function M.bilinear(b, a)
   -- (N, i), (o, i, j), (N, j) -> (N, o)
   local y = b:node("Einsum", {a.input1, a.weight, a.input2}, {equation = "...i,oij,...j->...o"})
   return a.bias and op(b, "Add", y, a.bias) or y
end

-- Convolutions ------------------------------------------------------------------------------------

for n = 1, 3 do
   M[("conv%dd"):format(n)] = function(b, a)
      local x, undo = batched(b, a.input, n)
      return undo(b:node("Conv", {x, a.weight, a.bias}, {strides = a.stride,
         pads = twice(a.padding), dilations = a.dilation, group = a.groups}))
   end
   M[("conv%dd_padding"):format(n)] = function(b, a)
      local x, undo = batched(b, a.input, n)
      local pads = support.fill(2 * n, 0)
      if a.padding == "same" then
         for i = 1, n do
            local total = a.dilation[i] * (a.weight.examples[1]:size(2 + i) - 1)
            pads[i], pads[n + i] = total // 2, total - total // 2
         end
      end
      return undo(b:node("Conv", {x, a.weight, a.bias}, {strides = a.stride, pads = pads,
         dilations = a.dilation, group = a.groups}))
   end
   M[("conv_transpose%dd"):format(n)] = function(b, a)
      local x, undo = batched(b, a.input, n)
      -- ONNX's runtimes refuse an output_padding that is not less than the stride. Where possible,
      -- less padding at the end replaces the output_padding, which gives the same result.
      local pads, added = twice(a.padding), table.move(a.output_padding, 1, n, 1, {})
      for i = 1, n do
         local instead = math.min(added[i], pads[n + i])
         added[i], pads[n + i] = added[i] - instead, pads[n + i] - instead
      end
      return undo(b:node("ConvTranspose", {x, a.weight, a.bias}, {strides = a.stride,
         pads = pads, dilations = a.dilation, group = a.groups, output_padding = added}))
   end
end

function M.unfold_windows(b, a)
   local x = a.input
   local channels = b:known(x, 2)
   local area = a.kernel_size[1] * a.kernel_size[2]
   -- A convolution extracts the elements of each window: it has a kernel for each element.
   local weight = torch.zeros(channels * area, 1, a.kernel_size[1], a.kernel_size[2])
   for c = 0, channels - 1 do
      for k = 0, area - 1 do
         weight[{c * area + k + 1, 1, k // a.kernel_size[2] + 1, k % a.kernel_size[2] + 1}] = 1
      end
   end
   local y = b:node("Conv", {x, b:initializer(weight:to(b:dtype(x)))}, {strides = a.stride,
      pads = twice(a.padding), dilations = a.dilation, group = channels})
   return b:reshape(y, {0, channels * area, -1})
end

function M.fold(b, a)
   if b.opset < 18 then wire.fail "fold needs opset_version 18" end
   return b:node("Col2Im", {a.input, b:ints(a.output_size), b:ints(a.kernel_size)},
      {strides = a.stride, pads = twice(a.padding), dilations = a.dilation})
end

local pads_of <const> = {constant = "constant", reflect = "reflect", replicate = "edge",
   circular = "wrap"}

function M.pad(b, a)
   local mode = pads_of[a.mode or "constant"]
   local rank = b:rank(a.input)
   -- Operator sets before version 19 lack this mode, so parts of the input are concatenated to make
   -- the padding.
   if mode == "wrap" and b.opset < 19 then
      local y = a.input
      for k = 1, #a.pad, 2 do
         local axis = rank - (k + 1) // 2
         local before, after = a.pad[k], a.pad[k + 1]
         local list = {y}
         if before > 0 then table.insert(list, 1, b:slice(y, axis, -before)) end
         if after > 0 then list[#list + 1] = b:slice(y, axis, 0, after) end
         if #list > 1 then y = b:node("Concat", list, {axis = axis}) end
      end
      return y
   end
   local list = support.fill(2 * rank, 0)
   for k = 1, #a.pad, 2 do
      local axis = rank - (k + 1) // 2
      list[axis + 1], list[rank + axis + 1] = a.pad[k], a.pad[k + 1]
   end
   return b:node("Pad", {a.input, b:ints(list),
      mode == "constant" and b:number(a.value or 0, b:dtype(a.input)) or nil}, {mode = mode})
end
M.constant_pad = function(b, a)
   return M.pad(b, {input = a.self, pad = a.pad, value = a.value})
end

-- Normalization -----------------------------------------------------------------------------------

-- Returns `given`. If it is nil, returns a tensor with `number` for each channel of x.
local function or_full(b, given, x, number)
   return given or b:const(torch.full({b:known(x, 2)}, number, {dtype = b:dtype(x)}))
end

function M.batch_norm(b, a)
   local x = a.input
   if a.training or not a.running_mean then
      wire.fail "batch_norm with the statistics of its input cannot be exported"
   end
   return b:node("BatchNormalization", {x, or_full(b, a.weight, x, 1), or_full(b, a.bias, x, 0),
      a.running_mean, a.running_var}, {epsilon = float(a.eps)})
end

function M.instance_norm(b, a)
   local x = a.input
   if a.use_input_stats == false and a.running_mean then return M.batch_norm(b, a) end
   return b:node("InstanceNormalization", {x, or_full(b, a.weight, x, 1), or_full(b, a.bias, x, 0)},
      {epsilon = float(a.eps)})
end

function M.layer_norm(b, a)
   local x, n = a.input, #a.normalized_shape
   local weight = a.weight
   if not weight then
      weight = b:const(torch.ones(a.normalized_shape, {dtype = b:dtype(x)}))
   end
   return b:node("LayerNormalization", {x, weight, a.bias}, {axis = -n, epsilon = float(a.eps)})
end

function M.rms_norm(b, a)
   local x, axes = a.input, {}
   for i = 1, #a.normalized_shape do axes[i] = b:rank(x) - #a.normalized_shape + i - 1 end
   local eps = a.eps or torch.finfo(b:dtype(x)).eps
   local mean = b:reduce("ReduceMean", op(b, "Mul", x, x), axes, true)
   local root = op(b, "Sqrt", op(b, "Add", mean, b:number(eps, b:dtype(x))))
   local y = op(b, "Div", x, root)
   return a.weight and op(b, "Mul", y, a.weight) or y
end

function M.group_norm(b, a)
   local x, groups = a.input, a.num_groups
   local ones = b:const(torch.ones({groups}, {dtype = b:dtype(x)}))
   local zeros = b:const(torch.zeros({groups}, {dtype = b:dtype(x)}))
   local y = b:node("InstanceNormalization", {b:reshape(x, {0, groups, -1}), ones, zeros},
      {epsilon = float(a.eps)})
   y = b:node("Reshape", {y, b:node("Shape", {x})})
   local shape = support.fill(b:rank(x), 1)
   shape[2] = -1
   shape = table.move(shape, 2, #shape, 1, {})
   if a.weight then y = op(b, "Mul", y, b:reshape(a.weight, shape)) end
   if a.bias then y = op(b, "Add", y, b:reshape(a.bias, shape)) end
   return y
end

function M.local_response_norm(b, a)
   if a.size % 2 == 1 then
      return b:node("LRN", {a.input}, {size = a.size, alpha = float(a.alpha), beta = float(a.beta),
         bias = float(a.k)})
   end
   -- A window of even size has one more channel before its centre than after it.
   local x, dtype = a.input, b:dtype(a.input)
   local pads = support.fill(2 * b:rank(x), 0)
   pads[2], pads[b:rank(x) + 2] = a.size // 2, (a.size - 1) // 2
   local squares = b:node("Pad", {op(b, "Mul", x, x), b:ints(pads)}, {mode = "constant"})
   local sum
   for k = 0, a.size - 1 do
      local part = b:slice(squares, 1, k, k + b:known(x, 2))
      sum = sum and op(b, "Add", sum, part) or part
   end
   local inner = op(b, "Mul", sum, b:number(a.alpha / a.size, dtype))
   inner = op(b, "Pow", op(b, "Add", inner, b:number(a.k, dtype)), b:number(a.beta, dtype))
   return op(b, "Div", x, inner)
end

function M.normalize(b, a)
   local size = base.norm(b, {self = a.input, p = a.p, dim = a.dim, keepdim = true})
   return op(b, "Div", a.input, op(b, "Max", size, b:number(a.eps, b:dtype(size))))
end

function M.prelu(b, a)
   local x, weight = a.input or a.self, a.weight
   if b:known(weight, 1) ~= 1 and b:rank(x) > 2 then
      local shape = support.fill(b:rank(x) - 1, 1)
      shape[1] = -1
      weight = b:reshape(weight, shape)
   end
   return op(b, "PRelu", x, weight)
end

function M.glu(b, a)
   local x = a.self or a.input
   local axis = b:axis(x, a.dim or -1)
   local half = (b:known(x, axis + 1) or wire.fail "glu of a dynamic size") // 2
   local parts = b:split(x, axis, {half, half})
   return op(b, "Mul", parts[1], op(b, "Sigmoid", parts[2]))
end

-- Embeddings --------------------------------------------------------------------------------------

function M.embedding(b, a)
   if a.max_norm then wire.fail "max_norm changes the weight, and cannot be exported" end
   return b:node("Gather", {a.weight, zero_based(b, a.input)}, {axis = 0})
end

function M.embedding_bag(b, a)
   if a.max_norm or a.offsets or a.padding_idx or b:rank(a.input) ~= 2 then
      wire.fail "embedding_bag can be exported for {batch, length} without max_norm and padding_idx"
   end
   local rows = M.embedding(b, a)
   if a.per_sample_weights then
      rows = op(b, "Mul", rows, b:unsqueeze(a.per_sample_weights, {2}))
   end
   local how = ({sum = "ReduceSum", mean = "ReduceMean", max = "ReduceMax"})[a.mode]
   return b:reduce(how, rows, {1}, false)
end

-- Attention ---------------------------------------------------------------------------------------

function M.scaled_dot_product_attention(b, a)
   if a.dropout_p and a.dropout_p > 0 and a.training then
      wire.fail "dropout in training mode cannot be exported"
   end
   local q, k, v = a.query, a.key, a.value
   local dtype, rank = b:dtype(q), b:rank(q)
   local scale = a.scale or 1 / math.sqrt(b:known(q, rank))
   if a.enable_gqa and b:known(q, rank - 2) ~= b:known(k, rank - 2) then
      local times = b:known(q, rank - 2) // b:known(k, rank - 2)
      k = shapes.repeat_interleave(b, {self = k, repeats = times, dim = rank - 2})
      v = shapes.repeat_interleave(b, {self = v, repeats = times, dim = rank - 2})
   end
   local scores = op(b, "MatMul", op(b, "Mul", q, b:number(scale, dtype)),
      shapes.transpose(b, {self = k, dim0 = -2, dim1 = -1}))
   local zero, lowest = b:number(0, dtype), b:number(-math.huge, dtype)
   if a.is_causal then
      local shape = b:ints {b:known(q, rank - 1) or b:size(q, rank - 1),
         b:known(k, rank - 1) or b:size(k, rank - 1)}
      local cell = torch.tensor({1.0}, {dtype = dtype})
      local ones = b:node("ConstantOfShape", {shape}, {value = cell})
      local allowed = b:cast(b:node("Trilu", {ones}, {upper = 0}), "bool")
      scores = op(b, "Where", allowed, scores, lowest)
   end
   local mask = a.attn_mask
   if not mask then return op(b, "MatMul", b:node("Softmax", {scores}, {axis = -1}), v) end
   if b:dtype(mask) == "bool" then mask = op(b, "Where", mask, zero, lowest) end
   scores = op(b, "Add", scores, mask)
   -- The weights of a row become 0 if the row has no allowed key.
   local out = b:cast(op(b, "Equal", scores, lowest), "int32")
   local none = b:cast(b:reduce("ReduceMin", out, {-1}, true), "bool")
   local weights = op(b, "Where", none, zero, b:node("Softmax", {scores}, {axis = -1}))
   return op(b, "MatMul", weights, v)
end

function M.rotate_pairs(b, a)
   local x, axis = a.input, b:rank(a.input) - 1
   local half = b:known(x, axis + 1) // 2
   local first, second
   if a.interleaved then
      first = b:slice(x, axis, 0, math.maxinteger, 2)
      second = b:slice(x, axis, 1, math.maxinteger, 2)
   else
      first, second = table.unpack(b:split(x, axis, {half, half}))
   end
   local real = op(b, "Sub", op(b, "Mul", first, a.cos), op(b, "Mul", second, a.sin))
   local other = op(b, "Add", op(b, "Mul", first, a.sin), op(b, "Mul", second, a.cos))
   if not a.interleaved then return b:node("Concat", {real, other}, {axis = axis}) end
   local both = b:node("Concat", {b:unsqueeze(real, {axis + 1}), b:unsqueeze(other, {axis + 1})},
      {axis = axis + 1})
   return b:node("Reshape", {both, b:node("Shape", {x})})
end
M.rotary_embedding = M.rotate_pairs

-- Recurrent layers --------------------------------------------------------------------------------

-- For each of ONNX's gates, the position of the gate in tlua's rows. The gates of an LSTM are i f g
-- o in tlua and i o f g in ONNX. The gates of a GRU are r z n in tlua and z r n in ONNX.
local orders <const> = {LSTM = {1, 4, 2, 3}, GRU = {2, 1, 3}, RNN = {1}}

-- Returns a weight or a bias whose gates are in ONNX's order.
local function gates(b, x, kind)
   local order = orders[kind]
   if #order == 1 then return x end
   local size = b:known(x, 1) // #order
   local parts = b:split(x, 0, support.fill(#order, size))
   local list = {}
   for i, k in ipairs(order) do list[i] = parts[k] end
   return b:node("Concat", list, {axis = 0})
end

-- Adds a first dimension, for the directions of a layer, to each tensor, and concatenates the
-- tensors along it.
local function stacked(b, list)
   local rows = {}
   for i, x in ipairs(list) do rows[i] = b:unsqueeze(x, {0}) end
   return #rows == 1 and rows[1] or b:node("Concat", rows, {axis = 0})
end

-- Adds one recurrent layer. Returns its outputs {T, N, directions * H} and its final states
-- {directions, N, H}.
local function one_layer(b, kind, activation, x, params, states)
   local w, r, bias = {}, {}, {}
   for d, p in ipairs(params) do
      w[d], r[d] = gates(b, p[1], kind), gates(b, p[2], kind)
      if p[3] then
         bias[d] = b:node("Concat", {gates(b, p[3], kind), gates(b, p[4], kind)}, {axis = 0})
      end
   end
   local attributes = {hidden_size = b:known(params[1][2], 2),
      direction = #params == 2 and "bidirectional" or "forward"}
   if kind == "GRU" then attributes.linear_before_reset = 1 end
   local inputs = {x, stacked(b, w), stacked(b, r), #bias > 0 and stacked(b, bias) or false, false,
      states[1] or false, states[2] or nil}
   while inputs[#inputs] == false do inputs[#inputs] = nil end
   local y, h, c = b:recurrent(kind, inputs, attributes, activation == "relu" and #params or nil)
   y = b:transpose(y, {0, 2, 1, 3})
   return b:reshape(y, {0, 0, -1}), h, c
end

local function recurrent(kind, activation)
   return function(b, a)
      local x, flat = a.input, b:rank(a.input) == 2
      if flat then
         x = b:unsqueeze(x, {1})
      elseif a.batch_first then
         x = b:transpose(x, {1, 0, 2})
      end
      if #a.params == 0 then wire.fail "a recurrent layer without weights" end
      local directions = a.bidirectional and 2 or 1
      local per = a.has_biases and 4 or 2
      if #a.params ~= a.num_layers * directions * per then
         wire.fail "recurrent layers with projections cannot be exported"
      end
      local given = a.hx or {}
      if given.examples then given = {given} end
      local hs, cs = {}, {}
      for layer = 0, a.num_layers - 1 do
         local params, states = {}, {}
         for d = 0, directions - 1 do
            local at = (layer * directions + d) * per
            params[d + 1] = table.move(a.params, at + 1, at + per, 1, {})
         end
         for i, state in ipairs(given) do
            if flat then state = b:unsqueeze(state, {1}) end
            states[i] = a.num_layers == 1 and state
               or b:slice(state, 0, layer * directions, (layer + 1) * directions)
         end
         x, hs[#hs + 1], cs[#cs + 1] = one_layer(b, kind, activation, x, params, states)
      end
      local function all(list)
         local y = #list == 1 and list[1] or b:node("Concat", list, {axis = 0})
         return flat and b:squeeze(y, {1}) or y
      end
      if flat then x = b:squeeze(x, {1}) elseif a.batch_first then x = b:transpose(x, {1, 0, 2}) end
      if kind == "LSTM" then return x, all(hs), all(cs) end
      return x, all(hs)
   end
end

M.lstm, M.gru = recurrent "LSTM", recurrent "GRU"
M.rnn_tanh, M.rnn_relu = recurrent("RNN", "tanh"), recurrent("RNN", "relu")

local function cell(kind, activation)
   return function(b, a)
      local x, given = b:unsqueeze(a.input, {0}), a.hx or {}
      if given.examples then given = {given} end
      local states = {}
      local flat = b:rank(a.input) == 1
      if flat then x = b:unsqueeze(x, {0}) end
      for i, state in ipairs(given) do
         states[i] = b:unsqueeze(state, flat and {0, 1} or {0})
      end
      local params = {{a.w_ih, a.w_hh, a.b_ih, a.b_hh}}
      local _, h, c = one_layer(b, kind, activation, x, params, states)
      local axes = flat and {0, 1} or {0}
      if kind == "LSTM" then return b:squeeze(h, axes), b:squeeze(c, axes) end
      return b:squeeze(h, axes)
   end
end
M.lstm_cell, M.gru_cell = cell "LSTM", cell "GRU"
M.rnn_tanh_cell, M.rnn_relu_cell = cell("RNN", "tanh"), cell("RNN", "relu")

-- Images ------------------------------------------------------------------------------------------

function M.interpolate(b, a)
   local x, mode = a.input, a.mode or "nearest"
   local n = b:rank(x) - 2
   local kind = ({nearest = "nearest", linear = "linear", bilinear = "linear", trilinear = "linear",
      bicubic = "cubic", ["nearest-exact"] = "nearest"})[mode]
      or wire.fail("interpolate with mode %s cannot be exported", mode)
   if a.antialias and b.opset < 18 then wire.fail "antialias needs opset_version 18" end
   local attributes = {mode = kind, cubic_coeff_a = kind == "cubic" and -0.75 or nil,
      antialias = a.antialias and 1 or nil,
      coordinate_transformation_mode = a.align_corners and "align_corners"
         or mode == "nearest" and "asymmetric" or mode == "nearest-exact" and "half_pixel"
         -- pytorch_half_pixel differs from PyTorch if the result has one element, so half_pixel is
         -- used.
         or "half_pixel",
      nearest_mode = kind == "nearest" and (mode == "nearest" and "floor" or "round_prefer_ceil")
         or nil}
   local size = a.size
   -- In these cases the result depends only on its size. The size is computed here, since runtimes
   -- derive different sizes from scales.
   if not size and (a.recompute_scale_factor or a.align_corners) then
      size = {}
      for i = 1, n do
         local old = b:known(x, 2 + i)
         size[i] = old and math.floor(old * (a.scale_factor[i] or a.scale_factor[1]))
      end
      if #size < n then
         if not a.align_corners then wire.fail "recompute_scale_factor of a dynamic size" end
         size = nil
      end
   end
   if size then
      local list = {b:known(x, 1) or b:size(x, 1), b:known(x, 2) or b:size(x, 2)}
      table.move(size, 1, #size, 3, list)
      return b:node("Resize", {x, false, false, b:ints(list)}, attributes)
   end
   local scales = {1.0, 1.0}
   for i = 1, n do scales[2 + i] = float(a.scale_factor[i] or a.scale_factor[1]) end
   return b:node("Resize", {x, false, b:const(scales, "float32")}, attributes)
end
M.upsample_bilinear = function(b, a)
   return M.interpolate(b, {input = a.input, size = a.size, scale_factor = a.scale_factor,
      mode = "bilinear", align_corners = true})
end

function M.pixel_shuffle(b, a)
   return b:node("DepthToSpace", {a.input}, {blocksize = a.upscale_factor, mode = "CRD"})
end
function M.pixel_unshuffle(b, a)
   local x, r = a.input, a.downscale_factor
   local c, h, w = b:known(x, 2), b:known(x, 3), b:known(x, 4)
   if not (h and w) then wire.fail "pixel_unshuffle of a dynamic size" end
   local y = b:reshape(x, {b:known(x, 1) or b:size(x, 1), c, h // r, r, w // r, r})
   return b:reshape(b:transpose(y, {0, 1, 3, 5, 2, 4}), {0, c * r * r, h // r, w // r})
end
function M.channel_shuffle(b, a)
   local x, c = a.input, b:known(a.input, 2)
   local y = b:transpose(b:reshape(x, {0, a.groups, c // a.groups, -1}), {0, 2, 1, 3})
   return b:node("Reshape", {y, b:node("Shape", {x})})
end

function M.grid_sample(b, a)
   local mode = a.mode or "bilinear"
   if b.opset >= 20 then mode = ({bilinear = "linear", bicubic = "cubic"})[mode] or mode end
   return b:node("GridSample", {a.input, a.grid}, {mode = mode,
      padding_mode = a.padding_mode or "zeros", align_corners = a.align_corners and 1 or 0})
end

-- Distances and losses ----------------------------------------------------------------------------

local function reduced(b, x, reduction)
   if reduction == "none" then return x end
   return b:reduce(reduction == "sum" and "ReduceSum" or "ReduceMean", x, nil, false)
end

-- Returns a translation of an elementwise loss. fn computes the elements, which are then reduced.
local function loss(fn)
   return function(b, a)
      local x = a.input or a.input1
      local function n(value) return b:number(value, b:dtype(x)) end
      return reduced(b, fn(b, a, n), a.reduction)
   end
end

M.mse_loss = loss(function(b, a)
   local d = op(b, "Sub", a.input, a.target)
   return op(b, "Mul", d, d)
end)
M.l1_loss = loss(function(b, a) return op(b, "Abs", op(b, "Sub", a.input, a.target)) end)
M.smooth_l1_loss = loss(function(b, a, n)
   local d = op(b, "Abs", op(b, "Sub", a.input, a.target))
   if a.beta == 0 then return d end
   local square = op(b, "Mul", op(b, "Mul", d, d), n(0.5 / a.beta))
   return op(b, "Where", op(b, "Less", d, n(a.beta)), square, op(b, "Sub", d, n(0.5 * a.beta)))
end)
M.huber_loss = loss(function(b, a, n)
   local d = op(b, "Abs", op(b, "Sub", a.input, a.target))
   local linear = op(b, "Mul", op(b, "Sub", d, n(0.5 * a.delta)), n(a.delta))
   local square = op(b, "Mul", op(b, "Mul", d, d), n(0.5))
   return op(b, "Where", op(b, "LessOrEqual", d, n(a.delta)), square, linear)
end)
M.soft_margin_loss = loss(function(b, a)
   return op(b, "Softplus", op(b, "Neg", op(b, "Mul", a.target, a.input)))
end)
M.margin_ranking_loss = loss(function(b, a, n)
   local d = op(b, "Mul", op(b, "Neg", a.target), op(b, "Sub", a.input1, a.input2))
   return op(b, "Relu", op(b, "Add", d, n(a.margin)))
end)
M.hinge_embedding_loss = loss(function(b, a, n)
   local far = op(b, "Relu", op(b, "Sub", n(a.margin), a.input))
   return op(b, "Where", op(b, "Equal", a.target, n(1)), a.input, far)
end)
M.binary_cross_entropy = loss(function(b, a, n)
   local function log(x) return op(b, "Max", op(b, "Log", x), n(-100)) end
   local y = op(b, "Add", op(b, "Mul", a.target, log(a.input)),
      op(b, "Mul", op(b, "Sub", n(1), a.target), log(op(b, "Sub", n(1), a.input))))
   y = op(b, "Neg", y)
   return a.weight and op(b, "Mul", y, a.weight) or y
end)
M.binary_cross_entropy_with_logits = loss(function(b, a, n)
   local logistic = op(b, "Softplus", op(b, "Neg", a.input))
   local rest = op(b, "Sub", n(1), a.target)
   local y
   if a.pos_weight then
      local factor = op(b, "Add", n(1), op(b, "Mul", op(b, "Sub", a.pos_weight, n(1)), a.target))
      y = op(b, "Add", op(b, "Mul", rest, a.input), op(b, "Mul", factor, logistic))
   else
      y = op(b, "Add", op(b, "Mul", rest, a.input), logistic)
   end
   return a.weight and op(b, "Mul", y, a.weight) or y
end)
M.multilabel_soft_margin_loss = function(b, a)
   local y = M.binary_cross_entropy_with_logits(b, {input = a.input, target = a.target,
      weight = a.weight, reduction = "none"})
   return reduced(b, b:reduce("ReduceMean", y, {-1}, false), a.reduction)
end
function M.multi_margin_loss(b, a)
   local x, dtype = a.input, b:dtype(a.input)
   if b:rank(x) ~= 2 or a.weight then
      wire.fail "multi_margin_loss without a batch or with weights cannot be exported"
   end
   local target = b:unsqueeze(zero_based(b, a.target), {1})
   local own = b:node("GatherElements", {x, target}, {axis = 1})
   local margin = op(b, "Relu", op(b, "Add", op(b, "Sub", x, own), b:number(a.margin, dtype)))
   if a.p == 2 then margin = op(b, "Mul", margin, margin) end
   local classes = b:const(torch.arange(0, b:known(x, 2), {dtype = "int64"}))
   local others = b:cast(op(b, "Not", op(b, "Equal", target, classes)), dtype)
   return reduced(b, b:reduce("ReduceMean", op(b, "Mul", margin, others), {1}, false), a.reduction)
end
M.kl_div = function(b, a)
   local function n(value) return b:number(value, b:dtype(a.input)) end
   local y
   if a.log_target then
      y = op(b, "Mul", op(b, "Exp", a.target), op(b, "Sub", a.target, a.input))
   else
      local positive = op(b, "Greater", a.target, n(0))
      local safe = op(b, "Where", positive, a.target, n(1))
      y = op(b, "Mul", a.target, op(b, "Sub", op(b, "Log", safe), a.input))
   end
   if a.reduction ~= "batchmean" then return reduced(b, y, a.reduction) end
   local batch = b:cast(b:squeeze(b:size(a.input, 1), {0}), b:dtype(a.input))
   return op(b, "Div", reduced(b, y, "sum"), batch)
end
M.poisson_nll_loss = loss(function(b, a, n)
   local y
   if a.log_input then
      y = op(b, "Sub", op(b, "Exp", a.input), op(b, "Mul", a.target, a.input))
   else
      local log = op(b, "Log", op(b, "Add", a.input, n(a.eps)))
      y = op(b, "Sub", a.input, op(b, "Mul", a.target, log))
   end
   if not a.full then return y end
   local least = op(b, "Max", a.target, n(1))
   local root = op(b, "Mul", n(0.5), op(b, "Log", op(b, "Mul", n(2 * math.pi), least)))
   local stirling = op(b, "Add", root,
      op(b, "Sub", op(b, "Mul", a.target, op(b, "Log", least)), a.target))
   return op(b, "Add", y, op(b, "Where", op(b, "Greater", a.target, n(1)), stirling, n(0)))
end)
M.gaussian_nll_loss = loss(function(b, a, n)
   local var = a.var
   -- If `var` has fewer dimensions than the input, it has one variance for each sample.
   if b:rank(var) < b:rank(a.input) then var = b:unsqueeze(var, {-1}) end
   var = op(b, "Max", base._operands(b, var, a.input), n(a.eps))
   local d = op(b, "Sub", a.input, a.target)
   local y = op(b, "Add", op(b, "Log", var), op(b, "Div", op(b, "Mul", d, d), var))
   y = op(b, "Mul", y, n(0.5))
   return a.full and op(b, "Add", y, n(0.5 * math.log(2 * math.pi))) or y
end)

function M.nll_loss(b, a)
   if b:rank(a.input) == 1 then
      wire.fail "a loss of one example without a batch cannot be exported"
   end
   -- These lines subtract 1 from the labels, and from the label that is ignored.
   local labels, ignored = zero_based(b, a.target), a.ignore_index
   if ignored and ignored < 1 then
      local target = b:cast(a.target, "int64")
      labels = op(b, "Where", op(b, "Equal", target, b:number(ignored, "int64")),
         b:number(ignored - 1, "int64"), labels)
   end
   return b:node("NegativeLogLikelihoodLoss", {a.input, labels, a.weight},
      {reduction = a.reduction, ignore_index = ignored and ignored - 1})
end
function M.cross_entropy(b, a)
   if b:rank(a.input) == 1 then
      wire.fail "a loss of one example without a batch cannot be exported"
   end
   local logs = b:node("LogSoftmax", {a.input}, {axis = 1})
   local smooth = a.label_smoothing or 0
   if b:is_float(a.target) or smooth > 0 and (a.weight or a.reduction == "none") then
      wire.fail("cross_entropy of probabilities, or with label_smoothing and weights, cannot be "
         .. "exported")
   end
   local exact = M.nll_loss(b, {input = logs, target = a.target, weight = a.weight,
      ignore_index = a.ignore_index, reduction = a.reduction})
   if smooth == 0 then return exact end
   local function n(value) return b:number(value, b:dtype(logs)) end
   -- This is the mean over the classes, for label smoothing.
   local uniform = op(b, "Neg", b:reduce("ReduceMean", logs, {1}, false))
   local counted = b:cast(op(b, "Not", op(b, "Equal", a.target,
      b:number(a.ignore_index, b:dtype(a.target)))), b:dtype(logs))
   uniform = b:reduce("ReduceSum", op(b, "Mul", uniform, counted), nil, false)
   if a.reduction == "mean" then
      uniform = op(b, "Div", uniform, b:reduce("ReduceSum", counted, nil, false))
   end
   return op(b, "Add", op(b, "Mul", exact, n(1 - smooth)), op(b, "Mul", uniform, n(smooth)))
end

function M.cosine_similarity(b, a)
   local x, y = a.x1, a.x2
   if not torch.is_same_size(x.examples[1], y.examples[1]) then
      local shape = b:node("Shape", {op(b, "Mul", x, y)})
      x, y = b:node("Expand", {x, shape}), b:node("Expand", {y, shape})
   end
   local axes, dtype = {b:axis(x, a.dim)}, b:dtype(x)
   local function unit(v)
      local size = b:reduce("ReduceL2", v, axes, true)
      return op(b, "Div", v, op(b, "Max", size, b:number(a.eps, dtype)))
   end
   return b:reduce("ReduceSum", op(b, "Mul", unit(x), unit(y)), axes, false)
end
function M.pairwise_distance(b, a)
   local dtype = b:dtype(a.x1)
   local d = op(b, "Add", op(b, "Sub", a.x1, a.x2), b:number(a.eps, dtype))
   return base.norm(b, {self = d, p = a.p, dim = -1, keepdim = a.keepdim})
end
function M.triplet_margin_loss(b, a)
   local function distance(x, y)
      return M.pairwise_distance(b, {x1 = x, x2 = y, p = a.p, eps = a.eps})
   end
   local near, far = distance(a.anchor, a.positive), distance(a.anchor, a.negative)
   if a.swap then far = op(b, "Min", far, distance(a.positive, a.negative)) end
   local y = op(b, "Add", op(b, "Sub", near, far), b:number(a.margin, b:dtype(near)))
   return reduced(b, op(b, "Relu", y), a.reduction)
end
function M.cosine_embedding_loss(b, a)
   local dtype = b:dtype(a.input1)
   local cosine = M.cosine_similarity(b, {x1 = a.input1, x2 = a.input2, dim = -1, eps = 1e-8})
   local target = b:cast(a.target, dtype)
   local near = op(b, "Sub", b:number(1, dtype), cosine)
   local far = op(b, "Relu", op(b, "Sub", cosine, b:number(a.margin, dtype)))
   return reduced(b, op(b, "Where", op(b, "Greater", target, b:number(0, dtype)), near, far),
      a.reduction)
end

function M.swiglu(b, a)
   local x, gate = a.input, a.gate
   if not gate then
      local axis = b:axis(x, a.dim or -1)
      local half = b:known(x, axis + 1) // 2
      x, gate = table.unpack(b:split(x, axis, {half, half}))
   end
   if a.bias or a.gate_bias then wire.fail "swiglu with biases cannot be exported" end
   return op(b, "Mul", op(b, "Mul", x, op(b, "Sigmoid", x)), gate)
end

-- These options have one number for all dimensions of a plane, or one number for each dimension.
local of_plane <const> = {"kernel_size", "stride", "padding", "dilation", "output_padding",
   "output_size", "size"}

-- Returns a translation that first expands each option in `of_plane` to n numbers.
local function with_all_numbers(translation, n)
   return function(b, a)
      local dims = n or b:rank(a.input) - 2
      for _, name in ipairs(of_plane) do
         local list = a[name]
         if type(list) == "table" and #list == 1 then a[name] = support.fill(dims, list[1]) end
      end
      return translation(b, a)
   end
end

for name, translation in pairs(pools) do M[name] = translation end
for name, translation in pairs(M) do
   local n = math.tointeger(name:match "([123])d")
   if n then M[name] = with_all_numbers(translation, n) end
end
M.unfold_windows, M.fold = with_all_numbers(M.unfold_windows, 2), with_all_numbers(M.fold, 2)
M.interpolate = with_all_numbers(M.interpolate)
M.upsample, M.upsample_nearest = M.interpolate, M.interpolate

for _, others in ipairs {base, shapes} do
   for name, translation in pairs(others) do
      if M[name] == nil then M[name] = translation end
   end
end

return M
