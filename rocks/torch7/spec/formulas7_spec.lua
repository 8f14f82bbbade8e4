-- Tests nn's transfer functions, convolutions, poolings and criterions against the formulas in the
-- documents of Torch7, written as plain Lua loops.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"

torch.manualSeed(6)

local exp, log, abs, max, min = math.exp, math.log, math.abs, math.max, math.min

local function near(expected, got, what)
   assert.is_true(abs(expected - got) <= 1e-9 * (1 + abs(expected)), ("%s: %s and %s"):format(what, expected, got))
end

local function check_all(expected, got, what)
   assert.same(expected:size():totable(), got:size():totable())
   local a, b = expected:contiguous():view(-1), got:contiguous():view(-1)
   for i = 1, a:size(1) do near(a[i], b[i], what) end
end

describe("Torch7's transfer functions", function()
   for name, case in pairs {
      Tanh = {nn.Tanh(), function(x) return (exp(x) - exp(-x)) / (exp(x) + exp(-x)) end},
      Sigmoid = {nn.Sigmoid(), function(x) return 1 / (1 + exp(-x)) end},
      LogSigmoid = {nn.LogSigmoid(), function(x) return log(1 / (1 + exp(-x))) end},
      HardTanh = {nn.HardTanh(), function(x) return max(-1, min(1, x)) end},
      ["HardTanh of limits"] = {nn.HardTanh(-0.5, 2), function(x) return max(-0.5, min(2, x)) end},
      HardShrink = {nn.HardShrink(0.85), function(x) return abs(x) > 0.85 and x or 0 end},
      SoftShrink = {nn.SoftShrink(0.85), function(x) return abs(x) > 0.85 and x - 0.85 * (x > 0 and 1 or -1) or 0 end},
      TanhShrink = {nn.TanhShrink(), function(x) return x - (exp(x) - exp(-x)) / (exp(x) + exp(-x)) end},
      SoftPlus = {nn.SoftPlus(2), function(x) return log(1 + exp(2 * x)) / 2 end},
      SoftSign = {nn.SoftSign(), function(x) return x / (1 + abs(x)) end},
      ReLU = {nn.ReLU(), function(x) return max(0, x) end},
      ReLU6 = {nn.ReLU6(), function(x) return min(6, max(0, x)) end},
      ELU = {nn.ELU(0.3), function(x) return max(0, x) + min(0, 0.3 * (exp(x) - 1)) end},
      LeakyReLU = {nn.LeakyReLU(0.2), function(x) return max(0, x) + 0.2 * min(0, x) end},
      PReLU = {nn.PReLU(), function(x) return max(0, x) + 0.25 * min(0, x) end},
      ["RReLU in evaluation"] = {nn.RReLU(), function(x) return max(0, x) + (1 / 8 + 1 / 3) / 2 * min(0, x) end},
      Threshold = {nn.Threshold(0.1, -3), function(x) return x > 0.1 and x or -3 end},
      Clamp = {nn.Clamp(-0.2, 0.7), function(x) return max(-0.2, min(0.7, x)) end},
      AddConstant = {nn.AddConstant(3), function(x) return x + 3 end},
      MulConstant = {nn.MulConstant(3), function(x) return x * 3 end},
      Power = {nn.Power(3), function(x) return x ^ 3 end},
      ["Square and Abs"] = {nn.Sequential():add(nn.Abs()):add(nn.Square()), function(x) return x * x end},
   } do
      it(name .. " has its formula", function()
         local x = torch.linspace(-7.3, 7.1, 41)
         case[1]:evaluate()
         check_all(x:clone():apply(case[2]), case[1]:forward(x), name)
      end)
   end

   it("RReLU draws slopes from its range in training", function()
      local x = torch.ones(200):mul(-1)
      local y = nn.RReLU(0.25, 0.5):forward(x)
      assert.is_true(y:max() <= -0.25 and y:min() >= -0.5 and y:std() > 0.01)
   end)

   it("such as softmax sum to one over their dimension", function()
      local x = torch.randn(2, 3, 4, 5)
      local y = nn.SpatialSoftMax():forward(x)
      check_all(torch.ones(2, 1, 4, 5), y:sum(2), "SpatialSoftMax")
      near(exp(x[2][1][3][4]) / torch.exp(x[2][{{}, 3, 4}]):sum(), y[2][1][3][4], "SpatialSoftMax")
      local v = torch.randn(6)
      check_all(torch.exp(v) / torch.exp(v):sum(), nn.SoftMax():forward(v), "SoftMax")
      check_all(torch.exp(-v) / torch.exp(-v):sum(), nn.SoftMin():forward(v), "SoftMin")
      check_all(torch.log(torch.exp(v) / torch.exp(v):sum()), nn.LogSoftMax():forward(v), "LogSoftMax")
   end)
end)

-- Returns the sum of fn(i, j, ...), where each index runs from 1 to its count.
local function sum(fn, n, ...)
   local total = 0
   for i = 1, n do
      if select("#", ...) > 0 then
         total = total + sum(function(...) return fn(i, ...) end, ...)
      else
         total = total + fn(i)
      end
   end
   return total
end

-- Returns an element of a tensor (planes, rows, columns). A position outside the planes gives 0.
local function at(x, p, r, c)
   if r < 1 or c < 1 or r > x:size(2) or c > x:size(3) then return 0 end
   return x[p][r][c]
end

describe("Torch7's convolutions", function()
   it("of sequences have their formulas", function()
      local m, x = nn.TemporalConvolution(3, 2, 2, 2), torch.randn(7, 3)
      local y, w = m:forward(x), m.weight:view(2, 2, 3)
      assert.same({3, 2}, y:size():totable())
      for t = 1, 3 do
         for i = 1, 2 do
            near(m.bias[i] + sum(function(k, j) return w[i][k][j] * x[2 * (t - 1) + k][j] end, 2, 3), y[t][i], t)
         end
      end
      local row = nn.TemporalRowConvolution(3, 2)
      y = row:forward(x)
      for t = 1, 6 do
         for i = 1, 3 do
            near(row.bias[i] + sum(function(k) return row.weight:view(3, 2)[i][k] * x[t + k - 1][i] end, 2), y[t][i], t)
         end
      end
      local sub = nn.TemporalSubSampling(3, 2, 2)
      y = sub:forward(x)
      for t = 1, 3 do
         for i = 1, 3 do
            near(sub.bias[i] + sub.weight[i] * sum(function(k) return x[2 * (t - 1) + k][i] end, 2), y[t][i], t)
         end
      end
      y = nn.TemporalMaxPooling(2, 2):forward(x)
      for t = 1, 3 do near(max(x[2 * t - 1][2], x[2 * t][2]), y[t][2], t) end
   end)

   it("of images have their formulas", function()
      local x = torch.randn(2, 6, 7)
      local m = nn.SpatialConvolution(2, 3, 3, 2, 2, 1, 1, 2)
      local y = m:forward(x)
      assert.same({3, math.floor((6 + 4 - 2) / 1 + 1), math.floor((7 + 2 - 3) / 2 + 1)}, y:size():totable())
      for o = 1, 3 do
         for r = 1, y:size(2) do
            for c = 1, y:size(3) do
               near(m.bias[o] + sum(function(p, a, b)
                  return m.weight[o][p][a][b] * at(x, p, r - 1 + a - 2, 2 * (c - 1) + b - 1)
               end, 2, 2, 3), y[o][r][c], "SpatialConvolution")
            end
         end
      end
      local dilated = nn.SpatialDilatedConvolution(2, 1, 2, 2, 1, 1, 0, 0, 3, 2)
      y = dilated:forward(x)
      assert.same({1, 4, 4}, y:size():totable())
      near(dilated.bias[1] + sum(function(p, a, b)
         return dilated.weight[1][p][a][b] * x[p][3 + 2 * (a - 1)][2 + 3 * (b - 1)]
      end, 2, 2, 2), y[1][3][2], "SpatialDilatedConvolution")
      local loc = nn.SpatialConvolutionLocal(2, 1, 7, 6, 3, 3)
      y = loc:forward(x)
      near(loc.bias[1][2][4] + sum(function(p, a, b) return loc.weight[2][4][1][p][a][b] * x[p][1 + a][3 + b] end, 2, 3,
         3), y[1][2][4], "SpatialConvolutionLocal")
      local pairs_of = torch.Tensor {{1, 1}, {2, 1}, {2, 2}}
      local map = nn.SpatialConvolutionMap(pairs_of, 2, 2)
      y = map:forward(x)
      near(map.bias[1] + sum(function(k, a, b) return map.weight[k][a][b] * x[k][2 + a][3 + b] end, 2, 2, 2),
         y[1][3][4], "SpatialConvolutionMap")
      near(map.bias[2] + sum(function(a, b) return map.weight[3][a][b] * x[2][2 + a][3 + b] end, 2, 2), y[2][3][4],
         "SpatialConvolutionMap")
   end)

   it("of the full kind scatter each input", function()
      local m, x = nn.SpatialFullConvolution(2, 1, 3, 3, 2, 2, 1, 1, 1, 1), torch.randn(2, 3, 4)
      local y = m:forward(x)
      assert.same({1, (3 - 1) * 2 - 2 + 3 + 1, (4 - 1) * 2 - 2 + 3 + 1}, y:size():totable())
      local expected = torch.zeros(1, y:size(2), y:size(3)):fill(m.bias[1])
      for p = 1, 2 do
         for r = 1, 3 do
            for c = 1, 4 do
               for a = 1, 3 do
                  for b = 1, 3 do
                     local i, j = 2 * (r - 1) + a - 1, 2 * (c - 1) + b - 1
                     if i >= 1 and j >= 1 and i <= y:size(2) and j <= y:size(3) then
                        expected[1][i][j] = expected[1][i][j] + m.weight[p][1][a][b] * x[p][r][c]
                     end
                  end
               end
            end
         end
      end
      check_all(expected, y, "SpatialFullConvolution")
   end)

   it("of volumes have their formula", function()
      local m, x = nn.VolumetricConvolution(2, 1, 2, 3, 2, 1, 2, 1), torch.randn(2, 3, 4, 5)
      local y = m:forward(x)
      assert.same({1, 2, 3, 2}, y:size():totable())
      near(m.bias[1] + sum(function(p, t, a, b) return m.weight[1][p][t][a][b] * x[p][1 + t][a][2 + b] end,
         2, 2, 2, 3), y[1][2][1][2], "VolumetricConvolution")
   end)

   it("and poolings have their formulas", function()
      local x = torch.randn(1, 4, 6)
      local y = nn.SpatialMaxPooling(3, 2, 3, 2):forward(x)
      near(x[{1, {3, 4}, {4, 6}}]:max(), y[1][2][2], "SpatialMaxPooling")
      local m = nn.SpatialAveragePooling(2, 2, 2, 2, 1, 1)
      near(x[1][1][1] / 4, m:forward(x)[1][1][1], "SpatialAveragePooling")
      near(x[1][1][1], m:setCountExcludePad():forward(x)[1][1][1], "without padding")
      assert.same({1, 3, 2}, nn.SpatialMaxPooling(3, 2, 4, 2):ceil():forward(torch.randn(1, 5, 6)):size():totable())
      assert.same({1, 2, 1}, nn.SpatialMaxPooling(3, 2, 4, 2):floor():forward(torch.randn(1, 5, 6)):size():totable())
      local lp = nn.SpatialLPPooling(1, 2, 2, 2, 2, 2):forward(x)
      near(math.sqrt(sum(function(a, b) return x[1][a][b] ^ 2 end, 2, 2)), lp[1][1][1], "SpatialLPPooling")
      local sub = nn.SpatialSubSampling(1, 2, 2, 2, 2)
      near(sub.bias[1] + sub.weight[1] * x[{1, {1, 2}, {3, 4}}]:sum(), sub:forward(x)[1][1][2], "SpatialSubSampling")
      near(x[1][2][2], nn.SpatialUpSamplingNearest(3):forward(x)[1][5][4], "SpatialUpSamplingNearest")
      local lrn, z = nn.SpatialCrossMapLRN(3, 0.5, 0.75, 2), torch.randn(4, 1, 1)
      local f = 2 + 0.5 / 3 * (z[1][1][1] ^ 2 + z[2][1][1] ^ 2 + z[3][1][1] ^ 2)
      near(z[2][1][1] / f ^ 0.75, lrn:forward(z)[2][1][1], "SpatialCrossMapLRN")
   end)

   it("and tables of words keep their norms", function()
      local m = nn.LookupTable(10, 3, 0, 1, 2)
      m.weight:fill(2)
      local y = m:forward(torch.Tensor {1, 2, 1, 10})
      assert.is_true(abs(1 - y[3]:norm()) < 1e-6)
      assert.is_true(abs(1 - m.weight[10]:norm()) < 1e-6)
      near(6, m.weight[3]:sum(), "unused words")
   end)
end)

describe("Torch7's criterions", function()
   local x, y = torch.Tensor {0.3, -0.7, 1.4}, torch.Tensor {1, -1, 1}
   local function mean(fn) return sum(function(i) return fn(x[i], y[i], i) end, 3) / 3 end
   for name, case in pairs {
      AbsCriterion = {nn.AbsCriterion(), mean(function(a, b) return abs(a - b) end)},
      MSECriterion = {nn.MSECriterion(), mean(function(a, b) return (a - b) ^ 2 end)},
      SmoothL1Criterion = {nn.SmoothL1Criterion(), mean(function(a, b)
         local d = abs(a - b)
         return d < 1 and d * d / 2 or d - 0.5
      end)},
      MarginCriterion = {nn.MarginCriterion(0.8), mean(function(a, b) return max(0, 0.8 - a * b) end)},
      SoftMarginCriterion = {nn.SoftMarginCriterion(), mean(function(a, b) return log(1 + exp(-a * b)) end)},
      HingeEmbeddingCriterion = {nn.HingeEmbeddingCriterion(1), mean(function(a, b)
         return b == 1 and a or max(0, 1 - a)
      end)},
      WeightedMSECriterion = {nn.WeightedMSECriterion(torch.Tensor {1, 2, 3}), mean(function(a, b, i)
         return i * (a - b) ^ 2
      end)},
   } do
      it(name .. " has its formula, and its sum", function()
         near(case[2], case[1]:forward(x, y), name)
         local g, h = case[1]:backward(x, y):clone(), 1e-6
         for i = 1, 3 do
            x[i] = x[i] + h
            local above = case[1]:forward(x, y)
            x[i] = x[i] - 2 * h
            local below = case[1]:forward(x, y)
            x[i] = x[i] + h
            assert.is_true(abs((above - below) / (2 * h) - g[i]) < 1e-6, name)
         end
         case[1].sizeAverage = false
         near(3 * case[2], case[1]:forward(x, y), name)
      end)
   end

   it("of classes have their formulas", function()
      local scores, weights = torch.Tensor {{0.1, 0.7, -0.4}, {1.2, -0.3, 0.2}}, torch.Tensor {0.5, 1, 2}
      local target = torch.Tensor {2, 3}
      near(-(scores[1][2] + scores[2][3]) / 2, nn.ClassNLLCriterion():forward(scores, target), "ClassNLL")
      near(-(scores[1][2] + 2 * scores[2][3]) / 3, nn.ClassNLLCriterion(weights):forward(scores, target), "weights")
      local function entropy(r, k) return -scores[r][k] + log(sum(function(j) return exp(scores[r][j]) end, 3)) end
      near((entropy(1, 2) + entropy(2, 3)) / 2, nn.CrossEntropyCriterion():forward(scores, target), "CrossEntropy")
      local function margin(r, k)
         return sum(function(i) return i == k and 0 or max(0, 1 - scores[r][k] + scores[r][i]) end, 3) / 3
      end
      near((margin(1, 2) + margin(2, 3)) / 2, nn.MultiMarginCriterion():forward(scores, target), "MultiMargin")
      local labels = torch.Tensor {1, 3, 0}
      near(sum(function(j) return max(0, 1 - (scores[1][j == 1 and 1 or 3] - scores[1][2])) end, 2) / 3,
         nn.MultiLabelMarginCriterion():forward(scores[1], labels), "MultiLabelMargin")
      local o, t = torch.Tensor {0.2, 0.8}, torch.Tensor {0, 0.9}
      near(-sum(function(i) return t[i] * log(o[i]) + (1 - t[i]) * log(1 - o[i]) end, 2) / 2,
         nn.BCECriterion():forward(o, t), "BCE")
      local p = torch.Tensor {0.3, 0.7}
      near(sum(function(i) return p[i] * (log(p[i]) - log(o[i])) end, 2) / 2,
         nn.DistKLDivCriterion():forward(torch.log(o), p), "DistKLDiv")
   end)

   it("of pairs have their formulas", function()
      local a, b = torch.Tensor {0.3, 0.5}, torch.Tensor {-0.2, 0.9}
      local l1 = abs(a[1] - b[1]) + abs(a[2] - b[2])
      near(l1, nn.L1HingeEmbeddingCriterion(1):forward({a, b}, 1), "L1HingeEmbedding")
      near(max(0, 2 - l1), nn.L1HingeEmbeddingCriterion(2):forward({a, b}, -1), "L1HingeEmbedding")
      local cosine = a:dot(b) / (a:norm() * b:norm())
      near(1 - cosine, nn.CosineEmbeddingCriterion(0.1):forward({a, b}, 1), "CosineEmbedding")
      near(max(0, cosine - 0.1), nn.CosineEmbeddingCriterion(0.1):forward({a, b}, -1), "CosineEmbedding")
      local first, second = a:narrow(1, 1, 1), b:narrow(1, 1, 1)
      near(max(0, -(0.3 + 0.2) + 0.7), nn.MarginRankingCriterion(0.7):forward({first, second}, 1), "MarginRanking")
      local both = nn.ParallelCriterion():add(nn.MSECriterion(), 0.5):add(nn.AbsCriterion())
      near(0.5 * ((a - b):norm() ^ 2 / 2) + l1 / 2, both:forward({a, a}, {b, b}), "ParallelCriterion")
      local multi = nn.MultiCriterion():add(nn.AbsCriterion(), 0.5):add(nn.AbsCriterion())
      near(1.5 * l1 / 2, multi:forward(a, b), "MultiCriterion")
   end)
end)
