-- Tests special cases of losses. functional_spec tests ordinary values (spec/fixtures/functional.lua).

local torch = require "tlua"
local F = torch.nn.functional

it("losses of one sample take a single score, and a label in a list", function()
   for _, target in ipairs {torch.tensor(1), torch.tensor {1}} do
      assert.close(0.0, F.multi_margin_loss(torch.tensor(2.5), target), 0)
      assert.close(0.0, F.multilabel_margin_loss(torch.tensor(2.5), target), 0)
   end
   -- (1 - 0.5 + 0.25) / 2
   local input = torch.tensor {0.25, 0.5}
   assert.close(0.375, F.multi_margin_loss(input, torch.tensor(2)), 1e-6)
   assert.close({0.375}, F.multi_margin_loss(input, torch.tensor {2}, {reduction = "none"}), 1e-6)
end)

it("cosine_similarity promotes", function()
   local x = F.cosine_similarity(torch.tensor {{3, 4}}, torch.tensor {{4.0, 3}})
   assert.close({0.96}, x, 1e-6)
   assert.equal("float32", x.dtype)
end)

describe("regression losses", function()
   local shell = require "spec.support.shell"

   it("warn once for each line if they broadcast different shapes", function()
      local output = shell.run(("%s -e %s 2>&1"):format(shell.start(), shell.quote [[
         local F, column, row = torch.nn.functional, torch.ones(3, 1), torch.ones(3)
         for _ = 1, 2 do
            F.mse_loss(column, row)
            F.l1_loss(column, row)
            F.smooth_l1_loss(column, row)
            F.huber_loss(column, row)
         end
         F.mse_loss(row, row)
         F.gaussian_nll_loss(torch.ones(3, 2), column, torch.ones(3, 2)) -- one target for each row
         torch.nn.MSELoss()(row, torch.ones(1))
         warn "@off"
         F.mse_loss(column, row)]]))
      local lines = {}
      for line, text in output:gmatch ":(%d+): nn%.functional%.([^\n]*)" do lines[#lines + 1] = line .. " " .. text end
      local meant <const> = ", which is seldom meant"
      local same <const> = "_loss: target: its shape [3] differs from input's shape [3, 1]; both broadcast to [3, 3]"
      assert.same({
         "3 mse" .. same .. meant, "4 l1" .. same .. meant, "5 smooth_l1" .. same .. meant, "6 huber" .. same .. meant,
         "10 mse_loss: target: its shape [1] differs from input's shape [3]; both broadcast to [3]" .. meant,
      }, lines)
   end)

   it("do not warn in vmap of a target that all examples share", function()
      local output = shell.run(("%s -e %s 2>&1"):format(shell.start(), shell.quote [[
         local each = torch.func.vmap(torch.nn.functional.mse_loss, {in_dims = {1, false}})
         print(each(torch.tensor {{1.0, 2}, {3, 5}}, torch.zeros(2)))]]))
      assert.equal("tensor([ 2.5000, 17.0000])\n", output)
   end)
end)

it("kl_div names its reductions", function()
   local x = torch.ones(2, 3)
   assert.raises("kl_div: reduction: expected 'mean', 'batchmean', 'sum' or 'none', got 'batch_mean'",
      function() F.kl_div(x, x, {reduction = "batch_mean"}) end)
end)

it("margins must be positive", function()
   local x = torch.ones(2, 3)
   assert.raises("huber_loss", "delta", "more than 0", function() F.huber_loss(x, x, {delta = 0}) end)
   assert.raises("triplet_margin_loss", "margin", "more than 0",
      function() F.triplet_margin_loss(x, x, x, {margin = -1}) end)
end)

describe("cross_entropy", function()
   it("and nll_loss take a weight of the input's dtype alone", function()
      for _, name in ipairs {"cross_entropy", "nll_loss"} do
         for _, samples in ipairs {0, 2} do
            local labels = torch.ones(samples, {dtype = "int64"})
            assert.raises(name, "weight", "expected float32", "got float64",
               function() F[name](torch.zeros(samples, 3), labels, {weight = torch.ones(3, {dtype = "float64"})}) end)
         end
      end
   end)

   -- With at most 32 classes, up to 64 samples are processed at a time. The sizes of this test are near both limits.
   -- The expected values come from the definition.
   it("computes each sample's loss from that sample alone, for any number of samples and classes", function()
      for _, dtype in ipairs {"float32", "float64"} do
         for _, samples in ipairs {1, 15, 16, 17, 63, 64, 65, 130} do
            for _, classes in ipairs {1, 2, 10, 17, 32, 33} do
               local x = (torch.randn(samples, classes, {dtype = dtype}) * 5):requires_grad_(true)
               local labels, weights = torch.randint(1, classes + 1, {samples}), {}
               if samples > 2 then labels[2] = -100 end
               for i = 1, samples do weights[i] = i / samples end
               local loss = F.cross_entropy(x, labels, {reduction = "none"})
               loss:backward(torch.tensor(weights, {dtype = dtype}))
               local rows, losses, grads = x:detach():tolist(), {}, {}
               for i, row in ipairs(rows) do
                  local label, sum = labels[i]:item(), 0
                  for _, value in ipairs(row) do sum = sum + math.exp(value) end
                  losses[i], grads[i] = label < 0 and 0 or math.log(sum) - row[label], {}
                  for j, value in ipairs(row) do
                     grads[i][j] = label < 0 and 0 or weights[i] * (math.exp(value) / sum - (j == label and 1 or 0))
                  end
               end
               local tolerance = dtype == "float32" and 1e-5 or 1e-13
               assert.close(losses, loss, tolerance)
               assert.close(grads, x.grad, tolerance)
            end
         end
      end
   end)

   -- Adding a constant to all logits does not change the loss; PyTorch's log_softmax has the same property.
   it("is as exact for large logits, and NaN with an infinite one", function()
      for _, classes in ipairs {2, 33} do
         for _, inner in ipairs {1, 3} do
            local small = torch.randint(-32, 33, {20, classes, inner}):to("float32") / 16
            local labels = torch.randint(1, classes + 1, {20, inner})
            local function of(shift, reduction)
               local x = (small + shift):requires_grad_(true)
               local loss = F.cross_entropy(x, labels, {reduction = reduction})
               loss:sum():backward()
               return loss:detach(), x.grad
            end
            for _, reduction in ipairs {"none", "mean"} do
               local loss, grad = of(0, reduction)
               local large, large_grad = of(1 << 19, reduction)
               assert.close(loss, large, 1e-6)
               assert.close(grad, large_grad, 1e-6)
            end
         end
         for _, label in ipairs {1, classes} do
            local x = torch.zeros(1, classes)
            x[1][classes] = math.huge
            x:requires_grad_(true)
            local loss = F.cross_entropy(x, torch.tensor {label})
            loss:backward()
            assert.is_true(loss:isnan():item())
            assert.is_true(x.grad:isnan():all():item())
         end
      end
   end)
end)
