local torch = require "tlua"
local nn = torch.nn

describe("torch.summary", function()
   local function model() return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)) end

   it("counts parameters, bytes and operations by layer", function()
      local summary = torch.summary(model(), {5, 1, 4, 4})
      assert.equal(4, #summary.rows)
      local conv, linear = summary.rows[1], summary.rows[4]
      assert.same({"1", "Conv2d", "(5, 2, 2, 2)", 20, 80},
         {conv.path, conv.name, conv.shape, conv.parameters, conv.bytes})
      -- each of the 40 results needs 9 multiplications
      assert.equal(2 * 5 * 2 * 2 * 2 * 9, conv.operations)
      assert.equal(2 * 5 * 3 * 8, linear.operations)
      assert.equal(0, summary.rows[2].operations)
      assert.equal(20 + 27, summary.parameters)
      assert.equal(4 * 47, summary.bytes)
      assert.equal(720 + 240, summary.operations)
   end)

   it("prints as a table", function()
      local net = model()
      net[4]:requires_grad_(false)
      local summary = torch.summary(net, {1, 1, 4, 4})
      assert.equal(20, summary.trainable)
      assert.equal([[
layer        result        parameters  bytes  operations
1 (Conv2d)   (1, 2, 2, 2)          20     80         144
2 (ReLU)     (1, 2, 2, 2)           0      0           0
3 (Flatten)  (1, 8)                 0      0           0
4 (Linear)   (1, 3)                27    108          48
all                                47    188         192]], tostring(summary))
   end)

   it("leaves the model as it is, even where it fails", function()
      local net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
      net[2]:evaluate()
      torch.summary(net, {4, 2})
      assert.is_true(net[1].training)
      assert.is_false(net[2].training)
      assert.equal(0, net[1].num_batches_tracked:item())
      assert.is_false(net[1]._hooks)
      assert.raises("1 (BatchNorm1d): ", function() torch.summary(net, {4, 2, 3, 5}) end)
      assert.is_true(net[1].training)
      assert.is_false(net[1]._hooks)
   end)

   it("takes several inputs, of any dtype, and tensors", function()
      local both = torch.summary(nn.Bilinear(2, 3, 4), {{5, 2}, {5, 3}})
      assert.equal("(5, 4)", both.rows[1].shape)
      local embedding = torch.summary(nn.Embedding(9, 4), torch.ones(2, 3):long())
      assert.equal("(2, 3, 4)", embedding.rows[1].shape)
      assert.raises("torch.summary: model: expected a module, got 3", function() torch.summary(3, {1}) end)
      assert.raises("torch.summary: size: expected sizes, or a list of them, got 4",
         function() torch.summary(nn.Identity(), 4) end)
   end)
end)
