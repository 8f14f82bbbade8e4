local torch = require "tlua"
local sorted = require "spec.support.sorted"
local nn = torch.nn

describe("constructors of layers", function()
   it("take options by position and by name", function()
      assert.same({2, 2}, nn.Conv2d(1, 1, 3, 2).stride)
      assert.same({2, 2}, nn.Conv2d(1, 1, 3, {stride = 2}).stride)
      assert.same({1, 2}, nn.Conv2d(1, 1, {3, 3}, {stride = {1, 2}}).stride)
   end)

   it("refuse unknown options and suggest the nearest", function()
      assert.raises("nn.Conv2d: unknown option paddin; did you mean padding?",
         function() nn.Conv2d(1, 1, 3, {paddin = 1}) end)
      assert.raises("nn.Linear: unknown option biass; did you mean bias?",
         function() nn.Linear(1, 1, {biass = false}) end)
   end)

   it("name the arguments that they expect", function()
      assert.raises("nn.Linear: out_features is missing", function() nn.Linear(3) end)
      assert.raises("nn.Linear: in_features: expected an integer of at least 0, got -1",
         function() nn.Linear(-1, 3) end)
      assert.raises("nn.Linear: in_features: expected an integer of at least 0, got 2.5",
         function() nn.Linear(2.5, 3) end)
      assert.raises("nn.Conv2d: kernel_size: expected no negative numbers, got -1", function() nn.Conv2d(3, 4, -1) end)
      assert.raises("nn.ConvTranspose1d: kernel_size: expected no negative numbers",
         function() nn.ConvTranspose1d(3, 4, {-2}) end)
      assert.raises("nn.Conv1d: stride: expected a stride of 1 with padding = \"same\", got 2",
         function() nn.Conv1d(3, 4, 3, {padding = "same", stride = 2}) end)
      assert.raises("nn.Conv2d: kernel_size: expected an integer or a list of integers, got \"3\"",
         function() nn.Conv2d(1, 1, "3") end)
      assert.raises("a number or a list of 2, got 3", function() nn.Conv2d(1, 1, {3, 3, 3}) end)
      assert.raises("nn.Conv2d: groups: expected a divisor of 3 and 4 channels, got 2",
         function() nn.Conv2d(3, 4, 3, {groups = 2}) end)
      assert.raises("nn.Dropout: p: expected a probability from 0 to 1, got 1.5", function() nn.Dropout(1.5) end)
      assert.raises("nn.MSELoss: reduction: expected mean, sum or none, got \"avg\"",
         function() nn.MSELoss {reduction = "avg"} end)
   end)

   it("accept floats without a fraction as integers", function()
      assert.same({3, 8}, nn.Linear(16 / 2, 3).weight.shape)
   end)
end)

describe("first weights", function()
   it("of Linear lie within 1/sqrt(in_features)", function()
      torch.manual_seed(3)
      local layer = nn.Linear(100, 50)
      assert.is_true(layer.weight:abs():max():item() <= 0.1)
      assert.is_true(layer.weight:abs():max():item() > 0.09)
      assert.is_true(layer.bias:abs():max():item() <= 0.1)
   end)

   it("of Conv2d lie within 1/sqrt(fan_in)", function()
      torch.manual_seed(3)
      local layer = nn.Conv2d(4, 16, 5)
      assert.is_true(layer.weight:abs():max():item() <= 0.1)
      assert.is_true(layer.weight:abs():max():item() > 0.09)
   end)

   it("are the same for the same seed", function()
      torch.manual_seed(5)
      local a = nn.LSTM(3, 4)
      torch.manual_seed(5)
      local b = nn.LSTM(3, 4)
      assert.is_true(torch.equal(a.weight_hh_l0, b.weight_hh_l0))
   end)

   it("have the device and dtype asked for", function()
      assert.equal("float64", nn.Linear(2, 2, {dtype = "float64"}).weight.dtype)
   end)
end)

describe("nn.BatchNorm", function()
   it("keeps running statistics while training and uses them afterwards", function()
      local norm = nn.BatchNorm1d(1, {momentum = 0.5})
      norm(torch.tensor {{1.0}, {3.0}}) -- the mean is 2, and the unbiased variance is 2
      assert.close({1}, norm.running_mean:tolist())
      assert.close({1.5}, norm.running_var:tolist())
      assert.equal(1, norm.num_batches_tracked:item())
      norm:evaluate()
      assert.close({{(5 - 1) / 1.5 ^ 0.5}}, norm(torch.tensor {{5.0}}):tolist(), 1e-5)
      assert.close({1}, norm.running_mean:tolist())
   end)

   it("weights all batches equally without momentum", function()
      local norm = nn.BatchNorm1d(1, {momentum = false})
      norm(torch.tensor {{1.0}, {3.0}})
      norm(torch.tensor {{5.0}, {5.0}})
      assert.close({3.5}, norm.running_mean:tolist())
   end)

   it("always uses the batch if it keeps no running statistics", function()
      local norm = nn.BatchNorm1d(1, {track_running_stats = false}):evaluate()
      assert.close({{-1}, {1}}, norm(torch.tensor {{1.0}, {3.0}}):tolist(), 1e-5)
      assert.equal(0, #norm:buffers())
   end)

   it("refuses inputs of another rank", function()
      assert.raises("nn.BatchNorm2d: input: expected a tensor of 4 dimensions",
         function() nn.BatchNorm2d(3)(torch.randn(2, 3)) end)
   end)
end)

describe("nn.Dropout", function()
   it("zeroes elements in training and scales the others", function()
      torch.manual_seed(1)
      local dropped = nn.Dropout(0.25)(torch.ones(10000))
      assert.close(0.25, dropped:eq(0):float():mean():item(), 0.02)
      assert.close(1 / 0.75, dropped:max():item())
   end)

   it("returns its input in evaluation mode", function()
      local x = torch.randn(5)
      assert.close(x:tolist(), nn.Dropout(0.9):evaluate()(x):tolist(), 0)
   end)

   it("zeroes whole channels", function()
      torch.manual_seed(1)
      local dropped = nn.Dropout2d(0.5)(torch.ones(8, 4, 3, 3)):flatten(3)
      assert.is_true(torch.equal(dropped:amax(3), dropped:amin(3)))
   end)
end)

describe("nn.Embedding", function()
   it("looks up rows from position 1", function()
      local layer = nn.Embedding(3, 2)
      local rows = layer(torch.tensor {1, 3})
      assert.is_true(torch.equal(rows[1], layer.weight[1]))
      assert.is_true(torch.equal(rows[2], layer.weight[3]))
      assert.raises("position 0", function() layer(torch.tensor {0}) end)
      assert.raises("position 4", function() layer(torch.tensor {4}) end)
   end)

   it("has a row of zeros at padding_idx that is not learnt", function()
      local layer = nn.Embedding(3, 2, {padding_idx = -1})
      assert.equal(3, layer.padding_idx)
      assert.close({0, 0}, layer.weight[3]:tolist(), 0)
      layer(torch.tensor {3, 1}):sum():backward()
      assert.close({{1, 1}, {0, 0}, {0, 0}}, layer.weight.grad:tolist(), 0)
   end)

   it("limits the norms of its rows", function()
      local layer = nn.Embedding(2, 2, {max_norm = 1})
      torch.no_grad(function() layer.weight:copy_(torch.tensor {{3.0, 4.0}, {30.0, 40.0}}) end)
      assert.close({{0.6, 0.8}}, layer(torch.tensor {1}):tolist(), 1e-5)
      assert.close({30, 40}, layer.weight[2]:tolist())
   end)

   it("may be created from given vectors", function()
      local layer = nn.Embedding.from_pretrained(torch.tensor {{1.0, 2.0}})
      assert.is_false(layer.weight.requires_grad)
      assert.is_true(nn.Embedding.from_pretrained(torch.ones(2, 2), {freeze = false}) .weight.requires_grad)
   end)
end)

it("activations in place write over their input", function()
   local x = torch.tensor {-1.0, 2.0}
   nn.ReLU({inplace = true})(x)
   assert.close({0, 2}, x:tolist(), 0)
   nn.LeakyReLU(0.5, true)(x:neg_())
   assert.close({0, -1}, x:tolist(), 0)
end)

describe("nn.RotaryEmbedding", function()
   local function leaf(...) return torch.randn({...}, {dtype = "float64"}) end
   -- Rotates the features of a row at position p, directly by the definition. Positions and features count from 1.
   local function turned(row, p, dim, base, interleaved)
      local out = {}
      for i, value in ipairs(row) do out[i] = value end
      for i = 0, dim // 2 - 1 do
         local angle = (p - 1) / base ^ (2 * i / dim)
         local first = interleaved and 2 * i + 1 or i + 1
         local second = interleaved and 2 * i + 2 or i + 1 + dim // 2
         local a, b = row[first], row[second]
         out[first] = a * math.cos(angle) - b * math.sin(angle)
         out[second] = b * math.cos(angle) + a * math.sin(angle)
      end
      return out
   end

   for _, interleaved in ipairs {true, false} do
      it("turns pairs by angles that grow with the position: " .. tostring(interleaved), function()
         local x = leaf(2, 7, 3, 8)
         local y = nn.RotaryEmbedding(6, {base = 100, interleaved = interleaved})(x)
         for b = 1, 2 do
            for p = 1, 7 do assert.close(turned(x[b][p][2]:tolist(), p, 6, 100, interleaved), y[b][p][2], 1e-14) end
         end
      end)
   end

   it("takes positions, one list for all or one for each sample", function()
      local x, rope = leaf(2, 3, 1, 4), nn.RotaryEmbedding(4)
      local y = rope(x, torch.tensor {5, 9, 2})
      assert.close(turned(x[2][2][1]:tolist(), 9, 4, 10000, true), y[2][2][1], 1e-14)
      y = rope(x, torch.tensor {{1, 2, 3}, {7, 8, 4096}})
      assert.close(turned(x[1][2][1]:tolist(), 2, 4, 10000, true), y[1][2][1], 1e-14)
      assert.close(turned(x[2][3][1]:tolist(), 4096, 4, 10000, true), y[2][3][1], 1e-12)
   end)

   it("takes positions along the given dimension", function()
      local x = leaf(2, 5, 3, 4)
      local expected = nn.RotaryEmbedding(4)(x)
      for _, dim in ipairs {3, -2} do
         local y = nn.RotaryEmbedding(4, {seq_dim = dim})(x:transpose(2, 3))
         assert.close(expected, y:transpose(2, 3), 0)
      end
   end)

   it("keeps exact angles when it is cast, and has no state", function()
      local rope = nn.RotaryEmbedding(4):bfloat16()
      assert.same({}, rope:state_dict())
      assert.same({}, rope:parameters())
      local x = leaf(1, 4000, 1, 4):bfloat16()
      local exact = nn.RotaryEmbedding(4)(x:double())
      assert.close(exact:bfloat16(), rope(x), 0.02)
      assert.equal("bfloat16", rope(x).dtype)
   end)

   it("names the wrong argument in its errors", function()
      assert.raises("nn.RotaryEmbedding: dim: expected an even number", "got 3", function() nn.RotaryEmbedding(3) end)
      local rope = nn.RotaryEmbedding(4, 10)
      assert.raises("nn.RotaryEmbedding: input: expected at most max_seq_len = 10",
         function() rope(torch.zeros(1, 11, 1, 4)) end)
      assert.raises("input_pos: expected (3) or (1, 3) positions",
         function() rope(torch.zeros(1, 3, 1, 4), torch.tensor {1, 2}) end)
      assert.raises("input: expected positions in dimension 2", function() rope(torch.zeros(3, 4)) end)
      assert.raises("nn.RotaryEmbedding: unknown option bas; did you mean base?",
         function() nn.RotaryEmbedding(4, {bas = 1}) end)
   end)
end)

describe("nn.LayerNorm and nn.RMSNorm, of a sum", function()
   for _, name in ipairs {"LayerNorm", "RMSNorm"} do
      it("give the sum as well: " .. name, function()
         local norm = nn[name](6)
         norm.weight.data:uniform_(0.5, 2)
         local x, r = torch.randn(3, 6), torch.randn(3, 6)
         local y, sum = norm(x, r)
         assert.close(x + r, sum, 0)
         assert.close(norm(x + r):detach(), y:detach(), 1e-6)
      end)
   end
end)

it("nn.RMSNorm divides by the root of the mean square", function()
   local y = nn.RMSNorm(2, {eps = 0})(torch.tensor {{3.0, 4.0}})
   assert.close({{3 / 12.5 ^ 0.5, 4 / 12.5 ^ 0.5}}, y:tolist())
end)

it("nn.ConvTranspose2d gives the size of output_size", function()
   local layer = nn.ConvTranspose2d(1, 1, 3, {stride = 2})
   assert.same({1, 1, 5, 6}, layer(torch.ones(1, 1, 2, 2), {5, 6}).shape)
   assert.raises("output_size: expected 5 to 6 in dimension 4, got 7",
      function() layer(torch.ones(1, 1, 2, 2), {5, 7}) end)
end)

describe("nn.MultiheadAttention", function()
   it("ignores positions that the masks hide", function()
      torch.manual_seed(2)
      local layer = nn.MultiheadAttention(4, 2, {batch_first = true})
      local x = torch.randn(1, 3, 4)
      local causal = torch.ones(3, 3, {dtype = "bool"}):triu(1)
      local _, weights = layer(x, x, x, {attn_mask = causal})
      assert.close({1, 0, 0}, weights[{1, 1}]:tolist())
      assert.equal(0, weights[{1, 2, 3}]:item())
      local padding = torch.tensor {{false, false, true}}
      _, weights = layer(x, x, x, {key_padding_mask = padding})
      assert.equal(0, weights[{{}, {}, 3}]:abs():max():item())
   end)

   it("gives the same results without weights", function()
      torch.manual_seed(2)
      local layer = nn.MultiheadAttention(4, 2)
      local x = torch.randn(3, 2, 4)
      local causal = torch.ones(3, 3, {dtype = "bool"}):triu(1)
      local with = layer(x, x, x, {attn_mask = causal})
      local without, weights = layer(x, x, x, {attn_mask = causal, need_weights = false})
      assert.is_nil(weights)
      assert.close(with:tolist(), without:tolist(), 1e-5)
   end)
end)

it("nn.Transformer maps a source and a target to the target's shape", function()
   local model = nn.Transformer(8, 2, {num_encoder_layers = 1, num_decoder_layers = 1, dim_feedforward = 16})
   local mask = model.generate_square_subsequent_mask(4)
   local y = model(torch.randn(5, 2, 8), torch.randn(4, 2, 8), {tgt_mask = mask})
   assert.same({4, 2, 8}, y.shape)
   assert.equal(-math.huge, mask[{1, 2}]:item())
   assert.equal(0, mask[{2, 1}]:item())
end)

describe("losses", function()
   it("reduce as asked", function()
      local x, y = torch.tensor {1.0, 3.0}, torch.tensor {0.0, 0.0}
      assert.equal(5, nn.MSELoss()(x, y):item())
      assert.equal(10, nn.MSELoss({reduction = "sum"})(x, y):item())
      assert.same({1, 9}, nn.MSELoss({reduction = "none"})(x, y):tolist())
   end)

   it("take classes from 1", function()
      local scores = torch.tensor {{100.0, 0.0}, {0.0, 100.0}}
      local loss = nn.CrossEntropyLoss()
      assert.close(0, loss(scores, torch.tensor {1, 2}):item())
      assert.close(100, loss(scores, torch.tensor {2, 1}):item())
      assert.raises("label 0", function() loss(scores, torch.tensor {0, 1}) end)
   end)

   it("keep their weights as buffers", function()
      local loss = nn.CrossEntropyLoss {weight = torch.ones(3)}
      assert.equal(1, #loss:buffers())
      assert.equal("float64", loss:double().weight.dtype)
   end)

   it("refuse too many arguments", function()
      assert.raises("nn.MSELoss: expected 2 tensors, got 1", function() nn.MSELoss()(torch.ones(1)) end)
   end)
end)

it("nn.CrossEntropyLoss refuses to leave out a class of probabilities", function()
   local input, target = torch.randn(2, 3), torch.rand(2, 3)
   assert.raises("ignore_index: expected none if targets are probabilities, got 2",
      function() nn.CrossEntropyLoss {ignore_index = 2}(input, target) end)
   local soft = nn.CrossEntropyLoss {ignore_index = -1}(input, target)
   assert.close(nn.CrossEntropyLoss()(input, target), soft, 0)
end)

it("nn.NLLLoss2d is NLLLoss", function()
   local input, target = torch.randn(2, 3, 4, 4):log_softmax(2), torch.randint(1, 4, {2, 4, 4})
   assert.close(nn.NLLLoss()(input, target), nn.NLLLoss2d()(input, target), 0)
   assert.equal("NLLLoss2d()", tostring(nn.NLLLoss2d()))
end)

it("padding layers take images with a batch and without, and constants any tensor", function()
   for n = 1, 3 do
      for _, kind in ipairs {"Reflection", "Replication", "Circular"} do
         local name = ("%sPad%dd"):format(kind, n)
         local layer = nn[name](1)
         local function apply(d) return layer(torch.rand(table.unpack({3, 3, 3, 3, 3, 3}, 1, d))) end
         for d = n + 1, n + 2 do assert.equal(5, apply(d):size(d)) end
         for _, d in ipairs {n, n + 3} do
            assert.raises(("nn.%s: input: expected %d or %d dimensions"):format(name, n + 1, n + 2),
               function() apply(d) end)
         end
      end
   end
   assert.same({2, 3, 4, 7}, nn.ZeroPad1d(1)(torch.rand(2, 3, 4, 5)).shape)
end)

describe("options of layers", function()
   it("let dropouts and RReLU work in place", function()
      for _, name in ipairs {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
         "FeatureAlphaDropout", "RReLU"} do
         local input = torch.randn(2, 3, 4, 4, 4)
         if name == "Dropout1d" then input = torch.randn(2, 3, 4) end
         local before = input:clone()
         local output = nn[name] {inplace = true}(input)
         assert.equal(input:data_ptr(), output:data_ptr(), name)
         assert.is_false(torch.equal(before, input), name)
      end
   end)

   it("give the size of a transposed convolution's result, by position or by name", function()
      local layer = nn.ConvTranspose2d(1, 1, 3, {stride = 2})
      local x = torch.randn(1, 1, 4, 4)
      assert.same({1, 1, 9, 9}, layer(x).shape)
      assert.same({1, 1, 10, 9}, layer(x, {output_size = {10, 9}}).shape)
      assert.same({1, 1, 10, 10}, layer(x, {1, 1, 10, 10}).shape)
      assert.raises("output_size: expected 9 to 10 in dimension 4, got 11", function() layer(x, {10, 11}) end)
      assert.raises("nn.ConvTranspose2d: output_size: expected 2 or 4 sizes", function() layer(x, {10, 10, 10}) end)
   end)

   it("give an EmbeddingBag its bags by name", function()
      local bag = nn.EmbeddingBag(5, 2, {mode = "sum"})
      local index, offsets = torch.tensor {1, 2, 4, 5}, torch.tensor {1, 3}
      local weights = torch.tensor {1.0, 0, 2, 0}
      local w = bag.weight:detach()
      local out = bag(index, {offsets = offsets, per_sample_weights = weights})
      assert.is_true(torch.allclose(out, torch.stack({w[1], w[4] * 2})))
      assert.raises("nn.EmbeddingBag.forward: unknown option offset; did you mean offsets?",
         function() bag(index, {offset = offsets}) end)
   end)

   it("give GaussianNLLLoss one variance for several elements", function()
      local loss = nn.GaussianNLLLoss {reduction = "none"}
      local x, y = torch.zeros(2, 2), torch.ones(2, 2)
      -- (log v + 1 / v) / 2
      assert.close(1, loss(x, y, 0.5)[1][1]:item() + math.log(2) / 2, 1e-6)
      assert.close(0.5, loss(x, y, torch.tensor {{1.0, 2.0}})[2][1]:item(), 1e-6)
   end)
end)

describe("batch norm", function()
   it("keeps its statistics for an empty batch", function()
      local norm = nn.BatchNorm1d(2)
      assert.same({0, 2}, norm(torch.zeros(0, 2)).shape)
      assert.same({0.0, 0.0}, norm.running_mean:tolist())
      assert.same({1.0, 1.0}, norm.running_var:tolist())
   end)

   it("refuses an eps that is not above 0", function()
      assert.raises("nn.BatchNorm1d: eps: expected a number above 0, got 0",
         function() nn.BatchNorm1d(2, {eps = 0})(torch.randn(3, 2)) end)
   end)
end)

it("a module whose buffer has a history is cast only if its dtype differs", function()
   local loss = nn.BCELoss {weight = torch.ones(2, {requires_grad = true}) * 2}
   loss:to("float32")
   assert.same({2.0, 2.0}, loss.weight:tolist())
end)

it("CrossMapLRN2d divides by the squares of neighbouring channels, as in Torch7", function()
   local x = torch.tensor {1.0, 2, 3, 4}:view(1, 4, 1, 1)
   -- The denominator is (k plus the sum of squares) to the power beta, which is 1 here.
   local y = nn.CrossMapLRN2d(3, 3, 1, 1)(x):flatten():tolist()
   for i, square_sum in ipairs {1 + 4, 1 + 4 + 9, 4 + 9 + 16, 9 + 16} do
      assert.close(i / (1 + square_sum), y[i], 1e-7)
   end
   assert.raises("nn.CrossMapLRN2d: size: expected an odd number, got 4", function() nn.CrossMapLRN2d(4) end)
end)

describe("FractionalMaxPool", function()
   it("has windows at random distances that cover the last element", function()
      torch.manual_seed(2)
      local x = torch.arange(1, 10, {dtype = "float32"}):view(1, 1, 1, 9):expand(1, 1, 9, 9)
      local values = nn.FractionalMaxPool2d(2, {output_size = 5})(x)
      assert.same({1, 1, 5, 5}, values.shape)
      local row = values[1][1][1]:tolist()
      assert.equal(9, row[5])
      for i = 2, 5 do assert.is_true(row[i] - row[i - 1] >= 1 and row[i] - row[i - 1] <= 3) end
   end)

   it("requires one of its two sizes, and windows that fit", function()
      assert.raises("nn.FractionalMaxPool2d: expected either output_size or output_ratio",
         function() nn.FractionalMaxPool2d(2) end)
      assert.raises("expected windows that fit, got 4 of size 3 along a dimension of 5",
         function() nn.FractionalMaxPool2d(3, {output_size = 4})(torch.randn(1, 5, 5)) end)
   end)
end)

describe("AdaptiveLogSoftmaxWithLoss", function()
   it("gives probabilities that add up to 1, and predicts the likeliest class", function()
      torch.manual_seed(1)
      local layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, {3, 6})
      local x = torch.randn(5, 4)
      local log = layer:log_prob(x)
      assert.same({5, 10}, log.shape)
      assert.is_true(torch.allclose(log:exp():sum(2), torch.ones(5)))
      assert.is_true(torch.equal(log:argmax(2), layer:predict(x)))
      local target = torch.tensor {1, 3, 4, 7, 10}
      local output, loss = layer(x, target)
      assert.is_true(torch.allclose(output, log:gather(2, target:unsqueeze(2)):squeeze(2)))
      assert.close(-output:mean():item(), loss:item(), 1e-6)
   end)

   it("refuses invalid classes and cutoffs", function()
      local layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, {3, 6})
      assert.raises("target: expected classes from 1 to 10, got 11",
         function() layer(torch.randn(1, 4), torch.tensor {11}) end)
      assert.raises("cutoffs: expected ascending numbers from 1 to 9",
         function() nn.AdaptiveLogSoftmaxWithLoss(4, 10, {6, 3}) end)
   end)
end)

it("TripletMarginWithDistanceLoss takes any function or module for its distance", function()
   local a, b, c = torch.tensor {{1.0, 0}}, torch.tensor {{1.0, 2}}, torch.tensor {{4.0, 0}}
   local function largest(x, y) return (x - y):abs():amax(2) end
   assert.close(2, nn.TripletMarginWithDistanceLoss {distance_function = largest, margin = 3}(a, b, c):item(), 1e-6)
   assert.close(2, torch.nn.functional.triplet_margin_with_distance_loss(a, b, c,
      {distance_function = nn.PairwiseDistance(1), margin = 3}):item(), 1e-4)
   assert.raises("margin: expected a number above 0, got 0",
      function() nn.TripletMarginWithDistanceLoss {margin = 0} end)
end)

describe("LinearCrossEntropyLoss", function()
   -- Compares the loss and the gradients with those of a linear layer and cross_entropy, computed separately.
   local function both(options, dims, target)
      local loss = nn.LinearCrossEntropyLoss(3, 5, options):double()
      local x = torch.randn(dims, {dtype = "float64", requires_grad = true})
      local found, expected = {}, {}
      found[1] = loss(x, target)
      found[1]:sum():backward()
      for _, p in ipairs {x, table.unpack(loss:parameters())} do
         found[#found + 1] = p.grad
         p.grad = nil
      end
      expected[1] = nn.functional.cross_entropy(loss.linear(x), target, {weight = loss.weight,
         reduction = options.reduction, ignore_index = options.ignore_index,
         label_smoothing = options.label_smoothing})
      expected[1]:sum():backward()
      for _, p in ipairs {x, table.unpack(loss:parameters())} do expected[#expected + 1] = p.grad end
      return found, expected
   end

   it("is cross_entropy of a linear layer, a chunk of rows at a time", function()
      local target = torch.tensor {1, 5, 2, 2, 3, 4, 1}
      local weight = torch.tensor({1, 2, 0.5, 1, 3}, {dtype = "float64"})
      for _, options in ipairs {{}, {options = {batch_chunk_size = 2}}, {bias = true, weight = weight},
         {bias = true, options = {batch_chunk_size = 3, allow_retain_graph = true}, ignore_index = 2,
            reduction = "sum"}, {reduction = "none", options = {batch_chunk_size = 1}},
         {label_smoothing = 0.2, bias = true}} do
         local found, expected = both(options, {7, 3}, target)
         assert.equal(options.bias and 4 or 3, #found)
         for i, value in ipairs(expected) do assert.close(value, found[i], 1e-12) end
      end
      local found, expected = both({bias = true}, {3}, torch.tensor(4))
      for i, value in ipairs(expected) do assert.close(value, found[i], 1e-12) end
   end)

   it("names arguments that it does not support", function()
      local loss = nn.LinearCrossEntropyLoss(3, 4, {ignore_index = 2})
      assert.raises("ignore_index: expected none if targets are probabilities",
         function() loss(torch.randn(2, 3), torch.full({2, 4}, 0.25)) end)
      assert.raises("nn.LinearCrossEntropyLoss: input: expected shape (N, 3) or (3)",
         function() loss(torch.randn(2, 4), torch.tensor {1, 2}) end)
      assert.raises("weight: expected shape (4)",
         function() nn.LinearCrossEntropyLoss(3, 4, {weight = torch.ones(3)}) end)
      assert.raises("options.batch_chunk_size: expected an integer of at least 1, got 0",
         function() nn.LinearCrossEntropyLoss(3, 4, {options = {batch_chunk_size = 0}}) end)
      local options = nn.LinearCrossEntropyOptions {batch_chunk_size = 2, acc_policy = "compact"}
      assert.equal(2, nn.LinearCrossEntropyLoss(3, 4, {options = options}).options.batch_chunk_size)
      for option, value in sorted {batch_chunk_size = 0, chunking_method = "aspect_ratio:0",
         acc_policy = "some", acc_dtype = "int64"} do
         assert.raises("nn.LinearCrossEntropyOptions: " .. option .. ": expected",
            function() nn.LinearCrossEntropyOptions {[option] = value} end)
      end
      assert.raises("options: unknown option chunk; there are batch_chunk_size, allow_retain_graph",
         function() nn.LinearCrossEntropyLoss(3, 4, {options = {chunk = 2}}) end)
   end)

   it("name an argument that is not a tensor", function()
      assert.raises("nn.Flatten: input: expected a tensor, got nil", function() nn.Flatten()() end)
      assert.raises("nn.Unflatten: input: expected a tensor, got 3", function() nn.Unflatten(1, {2, 2})(3) end)
      assert.same({3}, nn.Unflatten(1, 3)(torch.ones(3)).shape)
      assert.matches("unflattened_size=%(3%)", tostring(nn.Unflatten(1, 3)))
      assert.raises("nn.TripletMarginWithDistanceLoss: positive: expected a tensor, got nil",
         function() nn.TripletMarginWithDistanceLoss()(torch.ones(2)) end)
      assert.raises("nn.ParameterList: parameters: expected a list of parameters, got 3",
         function() nn.ParameterList(3) end)
      local layer = nn.Linear(2, 2)
      layer:register_full_backward_hook(function() return 3 end)
      assert.raises("register_full_backward_hook: the hook's result: expected a list",
         function() layer(torch.ones(1, 2, {requires_grad = true})):sum():backward() end)
   end)
end)
