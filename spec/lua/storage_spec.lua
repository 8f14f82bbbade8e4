-- Tests storages. The expected values are PyTorch's results for the same calls, with positions changed to count from 1.

local torch = require "tlua"

describe("untyped_storage", function()
   it("is the memory that views share", function()
      local x = torch.arange(6.0):view(2, 3)
      local s = x:untyped_storage()
      assert.equal(24, s:nbytes())
      assert.equal(24, s:size())
      assert.equal(24, #s)
      assert.equal(1, s:element_size())
      assert.equal(x:data_ptr(), s:data_ptr())
      assert.equal(s, x[2]:untyped_storage())
      assert.equal(x:data_ptr(), x[2]:untyped_storage():data_ptr())
      assert.is_false(s == x:clone():untyped_storage())
      assert.equal(torch.device "cpu", s.device)
      assert.equal("[torch.storage.UntypedStorage(device=cpu) of size 24]", tostring(s))
   end)

   it("has a size but no memory on the meta device", function()
      assert.equal(12, torch.empty(3, {device = "meta"}):untyped_storage():nbytes())
   end)

   it("reads and writes bytes", function()
      local s = torch.tensor({258}, {dtype = "int16"}):untyped_storage()
      assert.same({2, 1}, s:tolist())
      assert.equal(1, s[2])
   end)

   it("may be created by a size", function()
      local s = torch.UntypedStorage(8)
      assert.equal(8, s:nbytes())
      s:copy_(torch.arange(8, {dtype = "uint8"}):untyped_storage())
      assert.same({0, 1, 2, 3, 4, 5, 6, 7}, s:tolist())
   end)

   it("refuses to be resized", function()
      assert.raises("UntypedStorage:resize_", "does not change",
         function() torch.ones(2):untyped_storage():resize_(0) end)
   end)
end)

describe("storage", function()
   it("gives the tensor's memory as elements", function()
      local x = torch.arange(6.0):view(2, 3)
      local s = x:storage()
      assert.equal(6, s:size())
      assert.equal(24, s:nbytes())
      assert.equal(4, s:element_size())
      assert.equal("float32", s.dtype)
      assert.equal(1, s[2])
      assert.equal(0, x[2]:storage()[1])
      assert.equal(3, x[2]:storage_offset())
      assert.same({0, 1, 2, 3, 4, 5}, s:tolist())
      assert.equal(x:untyped_storage(), s:untyped())
      assert.equal("[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 6]", tostring(s))
   end)

   it("writes into the tensor, which autograd notices", function()
      local x = torch.arange(3.0)
      local s = x:storage()
      s[1] = 9
      assert.equal(9, x[1]:item())
      s:fill_(2)
      assert.same({2, 2, 2}, x:tolist())
      local w = torch.ones(3, {requires_grad = true})
      local y = (w * x):sum()
      s[2] = 5
      assert.raises("changed", function() y:backward() end)
   end)

   it("is copied by clone", function()
      local x = torch.ones(2)
      local s = x:storage():clone()
      s[1] = 5
      assert.same({5, 1}, s:tolist())
      assert.same({1, 1}, x:tolist())
   end)

   it("refuses positions outside its size", function()
      local s = torch.ones(2):storage()
      assert.raises("TypedStorage: position: expected an integer from 1 to 2, got 3", function() return s[3] end)
      assert.raises("TypedStorage: position", "0", function() s[0] = 1 end)
      assert.raises("TypedStorage:copy_: source", "2 elements", function() s:copy_(torch.ones(3):storage()) end)
   end)
end)

describe("storages of one dtype", function()
   it("may be created by a size or a list", function()
      assert.equal(3, torch.FloatStorage(3):size())
      assert.same({1, 2}, torch.LongStorage {1, 2}:tolist())
      assert.equal("int64", torch.LongStorage(1).dtype)
      assert.raises("FloatStorage: size", "-1", function() torch.FloatStorage(-1) end)
   end)

   it("are recognised by isinstance and is_storage", function()
      local x = torch.ones(2)
      local typed, untyped = x:storage(), x:untyped_storage()
      assert.is_true(torch.is_storage(typed))
      assert.is_true(torch.is_storage(untyped))
      assert.is_false(torch.is_storage(x))
      assert.is_true(torch.isinstance(typed, torch.TypedStorage))
      assert.is_true(torch.isinstance(typed, torch.FloatStorage))
      assert.is_false(torch.isinstance(typed, torch.DoubleStorage))
      assert.is_true(torch.isinstance(untyped, torch.UntypedStorage))
      assert.is_false(torch.isinstance(untyped, torch.TypedStorage))
   end)

   it("is compared with another tensor's by is_set_to", function()
      local x = torch.ones(2, 3)
      assert.is_true(x:is_set_to(x:view(2, 3)))
      for _, other in ipairs {x:view(3, 2), x:clone(), x[1], x:t(), x:view "int32"} do
         assert.is_false(x:is_set_to(other))
      end
      assert.raises("is_set_to: tensor: expected a tensor, got 3", function() x:is_set_to(3) end)
   end)

   -- PyTorch 2.15's dim_order gave the expected values; dimensions count from 1 here.
   it("is traversed in the order that dim_order returns", function()
      for _, row in ipairs {
         {torch.empty(2, 3, 5, 7), {1, 2, 3, 4}},
         {torch.empty(2, 3, 5, 7):contiguous {memory_format = "channels_last"}, {1, 3, 4, 2}},
         {torch.empty(3, 4):t(), {2, 1}}, {torch.empty(1, 1, 3), {1, 2, 3}},
         {torch.empty(3, 1, 1):expand(3, 4, 1), {1, 2, 3}}, {torch.empty(2, 3, 4):permute(3, 1, 2), {2, 3, 1}},
         {torch.empty(2, 1, 1, 3):permute(4, 3, 1, 2), {3, 2, 4, 1}}, {torch.tensor(1.0), {}},
         {torch.empty(0, 3):t(), {1, 2}},
      } do
         assert.same(row[2], row[1]:dim_order())
      end
   end)

   it("remembers inference mode", function()
      local made = torch.inference_mode(function() return torch.ones(1) end)
      assert.is_true(made:is_inference() and torch.is_inference(made))
      assert.is_false(torch.is_inference(torch.ones(1)))
      assert.raises("is_inference: input: expected a tensor, got 3", function() torch.is_inference(3) end)
   end)
end)
