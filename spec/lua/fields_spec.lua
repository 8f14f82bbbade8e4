-- Names that do not exist are errors that suggest those that do.

local torch = require "tlua"

local x = torch.ones(3, 4)

describe("an unknown field of a tensor", function()
   it("is an error that suggests the nearest", function()
      assert.raises("no field 'shap'", "did you mean 'shape'?", function() return x.shap end)
      assert.raises("'sume'", "did you mean 'sum'?", function() return x:sume(1) end)
      assert.raises("'requires_gard'", "'requires_grad'", function() x.requires_gard = true end)
      assert.raises("no field 'nothing_like_it'", function() return x.nothing_like_it end)
   end)

   it("is nil where programs look for metamethods", function()
      assert.is_nil(x.__pairs)
   end)
end)

describe("a name inside an index", function()
   it("is an error that says how ranges are written", function()
      assert.raises("'step'", "range's step", "{first, last, step}", function()
         return x[{2, step = 3}]
      end)
      assert.raises("'stp'", "range's step", function() return x[{{1, 2, stp = 3}}] end)
      assert.raises("'whatever'", function() x[{1, {1, 2}, whatever = 3}] = 0 end)
      assert.close({1, 1}, x[{[1] = 1, [2] = {[2] = 2, [1] = 1}}])
   end)
end)
