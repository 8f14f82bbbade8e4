-- Tests that reading or calling a name that does not exist is an error, which suggests existing names.

local torch = require "tlua"

local x = torch.ones(3, 4)

describe("an unknown field of a tensor", function()
   it("raises an error that suggests the nearest name", function()
      assert.raises("no field 'shap'", "did you mean 'shape'?", function() return x.shap end)
      assert.raises("'sume'", "did you mean 'sum'?", function() return x:sume(1) end)
      assert.raises("'repeat_'; did you mean 'repeat_tensor'?", function() return x:repeat_(1) end)
      assert.raises("sum: self: expected a Tensor, got false; for elements write x:eq(y), x:ne(y)",
         function() return torch.sum(x == torch.ones(2, 3)) end)
      assert.raises("'requires_gard'", "'requires_grad'", function() x.requires_gard = true end)
      assert.raises("no field 'nothing_like_it'", function() return x.nothing_like_it end)
   end)

   it("is nil for names of metamethods", function() assert.is_nil(x.__pairs) end)
end)

it("a name inside an index raises an error that says how to write ranges", function()
   assert.raises("'step'", "range's step", "{first, last, step}", function() return x[{2, step = 3}] end)
   assert.raises("'stp'", "range's step", function() return x[{{1, 2, stp = 3}}] end)
   assert.raises("'whatever'", function() x[{1, {1, 2}, whatever = 3}] = 0 end)
   assert.close({1, 1}, x[{[1] = 1, [2] = {[2] = 2, [1] = 1}}])
end)

describe("torch.is_tensor", function()
   it("is false for other userdata, even with a tensor's metatable", function()
      -- a file handle is a userdata, too, and has the same size as a tensor's userdata
      local file = assert(io.tmpfile())
      local metatable = debug.getmetatable(file)
      assert.is_false(torch.is_tensor(file))
      assert.raises("expected a Tensor", "got userdata", function() x.add(file, 1) end)
      debug.setmetatable(file, debug.getmetatable(x))
      assert.is_false(torch.is_tensor(file))
      assert.raises("expected Tensors or numbers", "got userdata", function() return file + 1 end)
      debug.setmetatable(file, metatable)
      file:close()
   end)

   it("is true for a tensor that has lost its metatable", function()
      local y = torch.ones(2)
      debug.setmetatable(y, nil)
      assert.is_true(torch.is_tensor(y))
      assert.close({2, 2}, torch.add(y, 1))
      debug.setmetatable(y, debug.getmetatable(x))
   end)
end)
