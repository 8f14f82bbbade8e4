-- Tests metrics by comparing them with scikit-learn's. spec/fixtures/metrics.py has written the expected values to
-- metrics.lua.
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local metrics = torch.utils.metrics
local expected = dofile "spec/fixtures/metrics.lua"

-- Makes labels and scores for N samples and C classes by the formulas of metrics.py. Classes count from 1 here.
local N, C = 40, 5
local target, scores, binary, rounded = {}, {}, {}, {}
for k = 0, N - 1 do
   local t = (k * 7 + k // 3) % 4
   target[k + 1], binary[k + 1] = t + 1, t == 1 and 1 or 0
   scores[k + 1] = {}
   for c = 0, C - 1 do scores[k + 1][c + 1] = math.cos(1.3 * k + 2.1 * c) + (c == t and 1.2 or 0) end
   rounded[k + 1] = math.floor(scores[k + 1][2] * 4 + 0.5) / 4
end
target, binary = torch.tensor(target), torch.tensor(binary)
scores, rounded = torch.tensor(scores, {dtype = "float64"}), torch.tensor(rounded)

-- Returns the value of a metric for all data. The data are added in three batches of different sizes. The metric is
-- then reset, and the same is done again.
local function stream(metric, predictions, targets)
   for _ = 1, 2 do
      metric:reset()
      for _, range in ipairs {{1, 3}, {4, 30}, {31, N}} do
         assert.is_true(metric:update(predictions[{range}], targets[{range}]) == metric)
      end
   end
   return metric:compute()
end

describe("metrics", function()
   it("count correct predictions", function()
      assert.close(expected.accuracy, stream(metrics.Accuracy(), scores, target), 1e-12)
      assert.close(expected.accuracy, stream(metrics.Accuracy(), scores:argmax(2), target), 1e-12)
      assert.close(expected.top_2, stream(metrics.Accuracy {top_k = 2}, scores, target), 1e-12)
      assert.close(expected.top_3, stream(metrics.Accuracy {top_k = 3}, scores, target), 1e-12)
   end)

   for _, name in ipairs {"Precision", "Recall", "F1"} do
      it("know " .. name, function()
         for average, value in sorted(expected[name]) do
            assert.close(value, stream(metrics[name](C, {average = average}), scores, target), 1e-12)
         end
      end)
   end

   it("compute the area under the curve, with ties", function()
      assert.close(expected.AUC, stream(metrics.AUC(), rounded, binary), 1e-12)
      assert.close(expected.AUC, stream(metrics.AUC(), rounded, binary:eq(1)), 1e-12)
      assert.equal(0.5, metrics.AUC():update(torch.ones(4), torch.tensor {0, 1, 0, 1}):compute())
   end)

   it("compute perplexity", function()
      assert.close(expected.perplexity, stream(metrics.Perplexity(), scores, target), 1e-10)
      local uniform = metrics.Perplexity():update(torch.zeros(2, 3, 7), torch.ones(2, 3):long())
      assert.close(7, uniform:compute(), 1e-12)
   end)

   it("leave out targets that do not count", function()
      local metric = metrics.Perplexity {ignore_index = 1}
      local logits = torch.tensor {{9.0, 0}, {0, 0}, {9, 0}}
      metric:update(logits, torch.tensor {1, 2, 1}):update(logits, torch.tensor {2, 2, 1})
      -- The losses are log 2, log(1 + e^9) and log 2. The metric is the exponential of their mean.
      assert.close((2 * 2 * (1 + math.exp(9))) ^ (1 / 3), metric:compute(), 1e-3)
   end)

   it("count which class was taken for which", function()
      assert.same(expected.confusion, stream(metrics.ConfusionMatrix(C), scores, target):tolist())
   end)

   it("take means of weighted values", function()
      local mean = metrics.Mean():update(torch.tensor(1.0), 3):update(5)
      assert.equal(2, mean:compute())
      assert.equal(7, mean:reset():update(7):compute())
   end)

   it("give nan without any data", function()
      for _, metric in ipairs {metrics.Accuracy(), metrics.AUC(), metrics.Perplexity(),
         metrics.Mean(), metrics.F1(3), metrics.F1(3, {average = "micro"}),
         metrics.F1(3, {average = "weighted"})} do
         local value = metric:compute()
         assert.is_true(value ~= value, torch.type(metric))
      end
      local one_sided = metrics.AUC():update(torch.ones(2), torch.ones(2)):compute()
      assert.is_true(one_sided ~= one_sided)
   end)

   it("refuse arguments that do not fit", function()
      assert.raises("utils.metrics.Accuracy: targets: expected one for each prediction",
         function() metrics.Accuracy():update(torch.ones(3), torch.ones(2)) end)
      assert.raises("at least 9 scores each", function() metrics.Accuracy {top_k = 9}:update(scores, target) end)
      assert.raises("average: expected macro, micro, weighted or none, got \"mean\"",
         function() metrics.F1(3, {average = "mean"}) end)
      assert.raises("expected booleans, or 0 and 1",
         function() metrics.AUC():update(torch.ones(2), torch.tensor {1, 2}):compute() end)
      assert.raises("utils.metrics.Perplexity: predictions: expected a tensor, got 3",
         function() metrics.Perplexity():update(3, target) end)
      assert.raises("unknown option topk; did you mean top_k?", function() metrics.Accuracy {topk = 2} end)
   end)
end)
