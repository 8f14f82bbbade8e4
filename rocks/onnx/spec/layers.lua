-- layers.lua - exports each layer of torch.nn, and some models, for layers.py:
--
--    tlua rocks/onnx/spec/layers.lua FOLDER [OPSET] [NAME ...]
--    python rocks/onnx/spec/layers.py FOLDER
--
-- FOLDER/NAME.onnx is the model. NAME.0.in1.npy ... and NAME.0.out1.npy ... are inputs and outputs of the exported
-- size. NAME.1... are inputs and outputs of another batch size. layers.py checks the model with onnx.checker and runs
-- it with onnxruntime.

local torch = require "tlua"
local nn = torch.nn

local M = {}

local cases = {}

-- Adds a case. `make` creates the model, and `inputs` creates the inputs for a batch size. `dim` is the batch dimension
-- of the inputs (1, or 2 for recurrent layers).
local function case(name, make, inputs, dim) cases[#cases + 1] = {name, make, inputs, dim == nil and 1 or dim} end

local function x2(n) return torch.randn(n, 4) end
local function x3(n) return torch.randn(n, 4, 8) end
local function x4(n) return torch.randn(n, 4, 8, 8) end
local function x5(n) return torch.randn(n, 2, 4, 6, 4) end

for name in ([[ReLU ReLU6 LeakyReLU RReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign Tanh Tanhshrink Softshrink
   Hardshrink Hardtanh Hardsigmoid Hardswish Sigmoid LogSigmoid PReLU Identity Dropout AlphaDropout
   FeatureAlphaDropout Flatten]]):gmatch "%S+" do
   case(name, function() return nn[name]() end, x2)
end
case("GELU_tanh", function() return nn.GELU {approximate = "tanh"} end, x2)
case("Softplus_threshold", function() return nn.Softplus(2, 0.5) end, x2)
case("PReLU_channels", function() return nn.PReLU(4) end, x4)
case("Threshold", function() return nn.Threshold(0.1, 2) end, x2)
for name in ("GLU Softmax LogSoftmax Softmin"):gmatch "%S+" do case(name, function() return nn[name](2) end, x2) end
case("Softmax2d", function() return nn.Softmax2d() end, x4)
for name, x in pairs {Dropout1d = x3, Dropout2d = x4, Dropout3d = x5} do
   case(name, function() return nn[name]() end, x)
end
case("Unflatten", function() return nn.Unflatten(2, {2, 2}) end, x2)
case("Linear", function() return nn.Linear(4, 3) end, x2)
case("Linear_3d", function() return nn.Linear(8, 3, {bias = false}) end, x3)
case("Bilinear", function() return nn.Bilinear(4, 4, 3) end, function(n) return x2(n), x2(n) end)
local function tokens(n) return torch.randint(1, 10, {n, 5}) end
case("Embedding", function() return nn.Embedding(10, 3) end, tokens)
for _, mode in ipairs {"mean", "sum", "max"} do
   case("EmbeddingBag_" .. mode, function() return nn.EmbeddingBag(10, 3, {mode = mode}) end, tokens)
end
local inputs = {x3, x4, x5}
for n = 1, 3 do
   local x, c = inputs[n], n == 3 and 2 or 4
   local function layer(name, ...)
      local arguments = table.pack(...)
      case(("%s%dd"):format(name, n), function()
         return nn[("%s%dd"):format(name, n)](table.unpack(arguments, 1, arguments.n))
      end, x)
   end
   local function variant(name, suffix, ...)
      local arguments = table.pack(...)
      case(("%s%dd_%s"):format(name, n, suffix), function()
         return nn[("%s%dd"):format(name, n)](table.unpack(arguments, 1, arguments.n))
      end, x)
   end
   layer("Conv", c, 4, 3, {padding = 1, stride = 2})
   variant("Conv", "same", c, 4, 2, {padding = "same", dilation = 1})
   variant("Conv", "groups", c, 4, 3, {groups = 2, dilation = 1, bias = false})
   variant("Conv", "circular", c, 4, 3, {padding = 1, padding_mode = "circular"})
   layer("ConvTranspose", c, 4, 3, {stride = 2, padding = 1, output_padding = 1, groups = 2})
   variant("ConvTranspose", "dilated", c, 4, 2, {padding = 1, output_padding = 1, dilation = 2})
   layer("MaxPool", 2)
   variant("MaxPool", "indices", 2, {return_indices = true})
   variant("MaxPool", "padded", 3, {padding = 1, stride = 2})
   layer("AvgPool", 2)
   variant("AvgPool", "padded", 3, {padding = 1, stride = 2, count_include_pad = false})
   if n > 1 then variant("AvgPool", "divisor", 2, {divisor_override = 3}) end
   layer("LPPool", 2, 2)
   layer("AdaptiveAvgPool", 2)
   variant("AdaptiveAvgPool", "one", 1)
   variant("AdaptiveAvgPool", "uneven", 3)
   layer("AdaptiveMaxPool", 2)
   layer("BatchNorm", c)
   variant("BatchNorm", "plain", c, {affine = false})
   layer("InstanceNorm", c)
   variant("InstanceNorm", "affine", c, {affine = true})
   layer("ZeroPad", 1)
   layer("ConstantPad", 1, 2.5)
   layer("ReflectionPad", 1)
   layer("ReplicationPad", 1)
   layer("CircularPad", 1)
   case(("MaxUnpool%dd"):format(n), function()
      local pool = nn[("MaxPool%dd"):format(n)](2, {return_indices = true})
      local unpool = nn[("MaxUnpool%dd"):format(n)](2)
      return function(input) return unpool(pool(input)) end
   end, x)
   for name in ("LazyConv LazyConvTranspose LazyBatchNorm LazyInstanceNorm"):gmatch "%S+" do
      case(("%s%dd"):format(name, n), function()
         local of_conv = name:find "Conv"
         local module = of_conv and nn[("%s%dd"):format(name, n)](4, 3) or nn[("%s%dd"):format(name, n)]()
         module(x(2))
         return module
      end, x)
   end
end
case("LazyLinear", function()
   local module = nn.LazyLinear(3)
   module(x2(2))
   return module
end, x2)
case("SyncBatchNorm", function() return nn.SyncBatchNorm(4) end, x4)
case("LayerNorm", function() return nn.LayerNorm(8) end, x3)
case("LayerNorm_plain", function() return nn.LayerNorm({8, 8}, {elementwise_affine = false}) end, x4)
case("RMSNorm", function() return nn.RMSNorm(8) end, x3)
case("GroupNorm", function() return nn.GroupNorm(2, 4) end, x4)
case("LocalResponseNorm", function() return nn.LocalResponseNorm(3) end, x4)
case("LocalResponseNorm_even", function() return nn.LocalResponseNorm(2) end, x4)
case("CrossMapLRN2d", function() return nn.CrossMapLRN2d(3) end, x4)
case("Upsample", function() return nn.Upsample {scale_factor = 2} end, x4)
case("Upsample_bilinear", function() return nn.Upsample {scale_factor = 2, mode = "bilinear"} end, x4)
case("Upsample_corners", function()
   return nn.Upsample {size = {5, 11}, mode = "bilinear", align_corners = true}
end, x4)
case("Upsample_one", function() return nn.Upsample {size = {1, 3}, mode = "bilinear"} end, x4)
case("Upsample_sizes", function()
   return nn.Upsample {scale_factor = 0.3, mode = "bilinear", recompute_scale_factor = true}
end, x4)
case("Upsample_corners_scale", function()
   return nn.Upsample {scale_factor = 1.3, mode = "bicubic", align_corners = true}
end, x4)
case("Upsample_bicubic", function() return nn.Upsample {scale_factor = 2, mode = "bicubic"} end, x4)
case("Upsample_linear", function() return nn.Upsample {scale_factor = 2, mode = "linear"} end, x3)
case("Upsample_trilinear", function() return nn.Upsample {scale_factor = 2, mode = "trilinear"} end, x5)
case("UpsamplingNearest2d", function() return nn.UpsamplingNearest2d {scale_factor = 2} end, x4)
case("UpsamplingBilinear2d", function() return nn.UpsamplingBilinear2d {scale_factor = 2} end, x4)
case("PixelShuffle", function() return nn.PixelShuffle(2) end, x4)
case("PixelUnshuffle", function() return nn.PixelUnshuffle(2) end, x4)
case("ChannelShuffle", function() return nn.ChannelShuffle(2) end, x4)
case("Fold", function() return nn.Fold({4, 4}, 2) end, function(n) return torch.randn(n, 8, 9) end)
case("Unfold", function() return nn.Unfold(2) end, x4)
case("CosineSimilarity", function() return nn.CosineSimilarity() end, function(n) return x2(n), x2(n) end)
case("CosineSimilarity_broadcast", function() return nn.CosineSimilarity(2) end,
   function(n) return x2(n), torch.randn(n, 1) end)
case("PairwiseDistance", function() return nn.PairwiseDistance() end, function(n) return x2(n), x2(n) end)

local function series(n) return torch.randn(5, n, 4) end
for _, name in ipairs {"RNN", "GRU", "LSTM"} do
   case(name, function() return nn[name](4, 3) end, series, 2)
   case(name .. "_deep", function() return nn[name](4, 3, {num_layers = 2, bidirectional = true}) end, series, 2)
   case(name .. "_batch_first", function() return nn[name](8, 3, {batch_first = true, bias = false}) end, x3)
end
case("RNN_relu", function() return nn.RNN(4, 3, {nonlinearity = "relu", bidirectional = true}) end, series, 2)
for _, name in ipairs {"RNNCell", "GRUCell", "LSTMCell"} do case(name, function() return nn[name](4, 3) end, x2) end
local function words(n) return torch.randn(n, 5, 8) end
case("MultiheadAttention", function()
   local module = nn.MultiheadAttention(8, 2, {batch_first = true}):eval()
   return function(x) return module(x, x, x) end
end, words)
case("TransformerEncoderLayer", function()
   return nn.TransformerEncoderLayer(8, 2, {batch_first = true, dim_feedforward = 16})
end, words)
case("TransformerEncoder", function()
   local layer = nn.TransformerEncoderLayer(8, 2, {batch_first = true, dim_feedforward = 16, activation = "gelu"})
   return nn.TransformerEncoder(layer, 2)
end, words)
case("TransformerDecoderLayer", function()
   return nn.TransformerDecoderLayer(8, 2, {batch_first = true, dim_feedforward = 16})
end, function(n) return words(n), torch.randn(n, 3, 8) end)
case("TransformerDecoder", function()
   local layer = nn.TransformerDecoderLayer(8, 2, {batch_first = true, dim_feedforward = 16})
   return nn.TransformerDecoder(layer, 2)
end, function(n) return words(n), torch.randn(n, 3, 8) end)
case("Transformer", function()
   return nn.Transformer {d_model = 8, nhead = 2, num_encoder_layers = 1, num_decoder_layers = 1, dim_feedforward = 16,
      batch_first = true}
end, function(n) return words(n), torch.randn(n, 3, 8) end)
case("RotaryEmbedding", function()
   local module = nn.RotaryEmbedding(8):eval()
   return function(x) return module(x) end
end, function(n) return torch.randn(n, 2, 5, 8) end)

-- Losses.
local function pair(n) return x2(n), x2(n) end
local function classes(n) return torch.randn(n, 4), torch.randint(1, 5, {n}) end
local function signs(n) return x2(n), x2(n):sign() end
for name, data in pairs {
   MSELoss = pair, L1Loss = pair, SmoothL1Loss = pair, HuberLoss = pair, CrossEntropyLoss = classes,
   NLLLoss = function(n)
      local x, y = classes(n)
      return x:log_softmax(2), y
   end,
   BCELoss = function(n) return x2(n):sigmoid(), x2(n):sigmoid() end,
   BCEWithLogitsLoss = function(n) return x2(n), x2(n):sigmoid() end,
   KLDivLoss = function(n) return x2(n):log_softmax(2), x2(n):softmax(2) end,
   PoissonNLLLoss = function(n) return x2(n), x2(n):abs() end,
   GaussianNLLLoss = function(n) return x2(n), x2(n), x2(n):abs() + 0.1 end,
   HingeEmbeddingLoss = signs, SoftMarginLoss = signs,
   CosineEmbeddingLoss = function(n) return x2(n), x2(n), torch.randn(n):sign() end,
   MarginRankingLoss = function(n) return torch.randn(n), torch.randn(n), torch.randn(n):sign() end,
   MultiMarginLoss = classes, MultiLabelSoftMarginLoss = function(n) return x2(n), x2(n):gt(0):float() end,
   MultiLabelMarginLoss = function(n) return x2(n), torch.randint(1, 5, {n, 4}) end,
   TripletMarginLoss = function(n) return x2(n), x2(n), x2(n) end,
   TripletMarginWithDistanceLoss = function(n) return x2(n), x2(n), x2(n) end,
   NLLLoss2d = function(n) return torch.randn(n, 4, 2, 2):log_softmax(2), torch.randint(1, 5, {n, 2, 2}) end,
} do
   case(name, function() return nn[name]() end, data)
end
case("CrossEntropyLoss_smooth", function() return nn.CrossEntropyLoss {label_smoothing = 0.1} end, classes)
case("CrossEntropyLoss_none", function() return nn.CrossEntropyLoss {reduction = "none"} end, classes)

-- Models.
case("convnet", function()
   return nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
end, function(n) return torch.randn(n, 1, 8, 8) end)
case("gpt", function()
   local Model = torch.class("Gpt", nn.Module)
   function Model:__init()
      nn.Module.__init(self)
      self.tokens, self.places = nn.Embedding(20, 8), nn.Embedding(16, 8)
      self.norm, self.qkv, self.out, self.head = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 20)
   end
   function Model:forward(x)
      local n, t = x:size(1), x:size(2)
      local h = self.tokens(x) + self.places(torch.arange(1, t + 1, {dtype = "int64"}))
      local q, k, v = table.unpack(self.qkv(self.norm(h)):view(n, t, 3, 2, 4):unbind(3))
      local y = nn.functional.scaled_dot_product_attention(q:transpose(2, 3), k:transpose(2, 3), v:transpose(2, 3),
         {is_causal = true})
      h = h + self.out(y:transpose(2, 3):reshape(n, t, 8))
      return self.head(h)
   end
   return Model()
end, function(n) return torch.randint(1, 21, {n, 6}) end)
case("indexing", function()
   return function(x) return x[{{}, {2, 3}}], x[{{}, 1}], x[{{}, {}, {1, -1, 2}}], x[{{}, -1, {2, 4}}] end
end, x3)
case("arithmetic", function()
   return function(x)
      return x:var({2}), x:std(), (x % 2) // 1, x:max(2), x:cumsum(2), x:flip(2), x:tril(), x ^ 3, 2 / x, 1 - x,
         x:gt(0):float():sum(), torch.stack({x, x}, 2), x:clamp(-0.5, 0.5), x:where(x:gt(0), 0 * x), x:norm(),
         x:argmax(2)
   end
end, x2)

-- This case passes options that may be one number for all dimensions, first as a number and then as a list.
case("one_number", function()
   local F = nn.functional
   local w2, w3 = torch.randn(3, 4, 2, 2), torch.randn(4, 3, 2, 2)
   return function(x)
      return F.max_pool2d(x, 2), F.max_pool2d(x, {2}, {padding = {1}}), F.avg_pool2d(x, {2}, {stride = {1}}),
         F.lp_pool2d(x:abs(), 2, {2}), F.conv2d(x, w2, nil, {stride = {2}, padding = {1}, dilation = {2}}),
         F.conv_transpose2d(x, w3, nil, {stride = {2}, output_padding = {1}}), F.unfold(x, {2}),
         F.interpolate(x, {size = {16}})
   end
end, x4)
case("rounding", function()
   return function(x)
      return x:round(), x:round {decimals = 2}, (x * 1000):round {decimals = -2}, x:mul(9):int():round()
   end
end, x2)
case("log1p", function()
   return function(x) return torch.log1p(x), torch.expm1(x) end
end, function(n) return torch.logspace(-9, -6, n) end)
case("masked_rows", function()
   return function(x)
      local q, mask = x:unsqueeze(2), x:select(3, 1):gt(0):unsqueeze(2):unsqueeze(4):logical_and(x[{1, {}, 1}]:gt(-9))
      local F = nn.functional
      return F.scaled_dot_product_attention(q, q, q, {attn_mask = mask}),
         F.scaled_dot_product_attention(q, q, q, {attn_mask = mask:logical_not():float() * -1e38 * 1e38})
   end
end, x3)
case("positions", function()
   return function(x, i)
      return x[i], x[{{}, i}], x[{i, i}], x[{{}, i, i:unsqueeze(2)}], x[{i, {}, i}],
         x:take_along_dim(i:reshape(-1, 1, 1), 1), x:index_select(2, i:abs()), nn.functional.one_hot(i:abs(), 5),
         x:scatter(1, i:abs():reshape(-1, 1, 1), x), nn.functional.nll_loss(x:select(3, 1), i:abs())
   end
end, function(n) return torch.randn(n, 4, 5), torch.arange(0, n, {dtype = "int64"}):remainder(2) - 2 end)

case("cond", function()
   local one, other = nn.Linear(4, 4), nn.Linear(4, 4)
   return function(x)
      local v = x[{{}, {1, 2}}]
      return torch.cond(x:mean():gt(0), function(u)
         return one(u):var({1}), torch.cond(u[{1, 1}]:lt(0), function() return v + 1 end, function() return v * 2 end)
      end, function(u) return other(u):var({1}), v end, {x}), v
   end
end, x2)

case("while_loop", function()
   return function(x)
      local y, n = torch.while_loop(function(y, n) return y:sum():lt(100) & n:lt(20) end,
         function(y, n) return y * 1.5 + x:abs(), n + 1 end, {x, torch.tensor(0)})
      return y:var({1}), n
   end
end, x2)

M.cases = cases

--- Exports a case. Returns the reason if the export fails, and otherwise nil.
---@param one table
---@param folder string
---@param opset integer
---@param save? boolean  whether to write the inputs and outputs too
---@return string? failure
function M.export(one, folder, opset, save)
   local function keep(x, ...)
      if save then torch.save(x:detach():contiguous(), ("%s/%s.%d.%s%d.npy"):format(folder, one[1], ...)) end
   end
   local name, make, data, dim = table.unpack(one)
   torch.manual_seed(1)
   local fine, why = pcall(function()
      local model = make()
      if type(model) == "table" then model:eval() end
      local first = {data(3)}
      local names, axes = {}, {}
      for i in ipairs(first) do
         names[i] = "in" .. i
         axes[names[i]] = {[dim] = "batch"}
      end
      torch.onnx.export(model, first, ("%s/%s.onnx"):format(folder, name),
         {input_names = names, dynamic_axes = axes, opset_version = opset})
      for k, set in ipairs {first, {data(5)}} do
         for i, x in ipairs(set) do keep(x, k - 1, "in", i) end
         local function flat(list, out)
            for _, value in ipairs(list) do
               if torch.is_tensor(value) then out[#out + 1] = value else flat(value, out) end
            end
            return out
         end
         for i, y in ipairs(flat({model(table.unpack(set))}, {})) do keep(y, k - 1, "out", i) end
         local loaded = {torch.onnx.load(("%s/%s.onnx"):format(folder, name))(table.unpack(set))}
         for i, y in ipairs(flat({model(table.unpack(set))}, {})) do
            local scale = y:numel() > 0 and y:abs():float():max():item() or 0
            assert(torch.allclose(loaded[i]:float(), y:float(), {rtol = 1e-4, atol = 1e-5 * (scale + 1e-3)}),
               "output " .. i .. " of the loaded model differs")
         end
      end
   end)
   return not fine and tostring(why) or nil
end

if arg and arg[0] and arg[0]:find "layers%.lua$" then
   local wanted, passed = {}, 0
   for i = 3, #arg do wanted[arg[i]] = true end
   local total = 0
   for _, one in ipairs(cases) do
      if #arg < 3 or wanted[one[1]] then
         local why = M.export(one, arg[1], tonumber(arg[2] or "18"), true)
         total, passed = total + 1, passed + (why and 0 or 1)
         if why then print(one[1], why) end
      end
   end
   print(("%d of %d exported, loaded, and equal"):format(passed, total))
end

return M
