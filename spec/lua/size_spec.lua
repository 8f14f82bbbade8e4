-- Tests torch.Size, the type of lists that x.shape and x:size() return.

local torch = require "tlua"

describe("torch.Size", function()
   local x = torch.zeros(2, 3, 4)

   it("compares sizes by ==", function()
      assert.is_true(x.shape == torch.ones(2, 3, 4).shape)
      assert.is_true(x:size() == x.shape)
      assert.is_true(x.shape == {2, 3, 4})
      assert.is_false(x.shape == torch.zeros(2, 3).shape)
      assert.is_false(x.shape == torch.zeros(2, 3, 5).shape)
      assert.is_true(torch.zeros({}).shape == torch.Size {})
   end)

   it("counts negative positions from the end", function()
      assert.equal(4, x.shape[-1])
      assert.equal(2, x.shape[-3])
      assert.equal(4, x.shape[-2 / 2]) -- a float, -1.0
      assert.is_nil(x.shape[4]) -- an index past the end gives nil, which ipairs needs
      local shape = x.shape
      shape[-1] = 7
      assert.same({2, 3, 7}, shape)
   end)

   it("refuses position 0 and positions before the first", function()
      assert.error_matches(function() return x.shape[0] end,
         "shape: dim: positions count from 1, and from the end with %-1, got 0")
      assert.error_matches(function() return x.shape[-4] end,
         "shape: dim: expected a position from %-3 to 3, got %-4")
      assert.error_matches(function() x.shape[0] = 1 end, "positions count from 1")
   end)

   it("is printed as in PyTorch", function()
      assert.equal("torch.Size([2, 3, 4])", tostring(x.shape))
      assert.equal("shape torch.Size([])", "shape " .. torch.zeros({}).shape)
   end)

   it("multiplies the sizes in numel", function()
      assert.equal(24, x.shape:numel())
      assert.equal(1, torch.Size({}):numel())
      for _, wrong in ipairs {1, {}, x, io.stdout, "x"} do
         assert.error_matches(function() x.shape.numel(wrong) end, "Size: numel: expected a torch.Size, got ")
      end
      assert.error_matches(function() x.shape.numel() end, "Size: numel: expected a torch.Size, got ")
   end)

   it("is a list like any other", function()
      local shape = x.shape
      assert.equal(3, #shape)
      assert.same({2, 3, 4}, {table.unpack(shape)})
      assert.equal("2x3x4", table.concat(shape, "x"))
      local read = {}
      for i, size in ipairs(shape) do read[i] = size end
      assert.same({2, 3, 4}, read)
      assert.same({2, 3, 4}, torch.zeros(shape).shape)
      assert.same({6, 4}, x:view {6, -1}.shape)
      table.insert(shape, 1, 9)
      table.remove(shape)
      assert.same({9, 2, 3}, shape)
      assert.same({2, 3, 4}, torch.broadcast_shapes({1, 4}, {2, 3, 1}))
      assert.is_true(torch.broadcast_shapes({1, 4}, {2, 3, 1}) == x.shape)
   end)

   it("is known to torch.isinstance and torch.type", function()
      assert.is_true(torch.isinstance(x.shape, torch.Size))
      assert.is_false(torch.isinstance({2, 3}, torch.Size))
      assert.equal("torch.Size", torch.type(x.shape))
   end)

   it("may be created from a list of integers", function()
      assert.error_matches(function() torch.Size {2, 0.5} end, "Size: sizes%[2%]: expected an integer, got 0.5")
      assert.error_matches(function() torch.Size(2) end, "Size: sizes: expected a list of integers")
   end)

   it("gives torch.Tensor and torch.LongTensor their shape, not their values", function()
      assert.same({2, 3, 4}, torch.Tensor(x.shape).shape)
      assert.same({2, 3}, torch.LongTensor(torch.zeros(2, 3):size()).shape)
      assert.same({2.0, 3.0}, torch.Tensor({2, 3}):tolist())
   end)

   it("may be sent to workers, saved and batched", function()
      local Shapes, parent = torch.class("Shapes", torch.data.Dataset)
      function Shapes:__init(shape)
         parent.__init(self)
         self.shape = shape
      end
      function Shapes:__len() return 2 end
      function Shapes:get(i) return torch.zeros(self.shape), self.shape, self.shape[-1] * i end
      local loader = torch.data.DataLoader(Shapes(x.shape), {batch_size = 2, num_workers = 1})
      for batch, shapes, last in loader:iter() do
         assert.same({2, 2, 3, 4}, batch.shape)
         assert.same({2, 2}, shapes[1]:tolist())
         assert.same({4, 8}, last:tolist())
      end
      for _, ending in ipairs {".pt", ".safetensors"} do
         local path = os.tmpname() .. ending
         torch.save({shape = x.shape, x = x}, path)
         assert.same({2, 3, 4}, torch.load(path).shape)
         os.remove(path)
      end
   end)
end)

it("pairs visits the rows of a tensor, as ipairs does", function()
   local sums = {}
   for i, row in pairs(torch.arange(0, 6):view(3, 2)) do sums[i] = row:sum():item() end
   assert.same({1, 5, 9}, sums)
   for _ in pairs(torch.zeros(0, 2)) do error "no row is there" end
   assert.error_matches(function() for _ in pairs(torch.tensor(1)) do error "no row" end end,
      "index: 1 positions for a tensor of 0 dimensions")
end)
