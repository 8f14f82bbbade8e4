-- Corners of the losses; their values are spec/fixtures/functional.lua's.

local torch = require "tlua"
local F = torch.nn.functional

describe("losses of one sample", function()
   it("take a score alone, and a label in a list", function()
      for _, target in ipairs {torch.tensor(1), torch.tensor {1}} do
         assert.close(0.0, F.multi_margin_loss(torch.tensor(2.5), target), 0)
         assert.close(0.0, F.multilabel_margin_loss(torch.tensor(2.5), target), 0)
      end
      -- (1 - 0.5 + 0.25) / 2
      local input = torch.tensor {0.25, 0.5}
      assert.close(0.375, F.multi_margin_loss(input, torch.tensor(2)), 1e-6)
      assert.close({0.375}, F.multi_margin_loss(input, torch.tensor {2}, {reduction = "none"}), 1e-6)
   end)
end)

describe("cosine_similarity", function()
   it("promotes", function()
      local x = F.cosine_similarity(torch.tensor {{3, 4}}, torch.tensor {{4.0, 3}})
      assert.close({0.96}, x, 1e-6)
      assert.equal("float32", x.dtype)
   end)
end)

describe("margins", function()
   it("are positive", function()
      local x = torch.ones(2, 3)
      assert.raises("huber_loss", "delta", "more than 0", function() F.huber_loss(x, x, {delta = 0}) end)
      assert.raises("triplet_margin_loss", "margin", "more than 0", function()
         F.triplet_margin_loss(x, x, x, {margin = -1})
      end)
   end)
end)
