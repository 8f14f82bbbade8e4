-- Tests properties of sorting, selecting and sets that functional_spec does not test.

local torch = require "tlua"

local nan <const> = 0 / 0

-- On a GPU, a row of this length is sorted by several blocks. Longer rows would take seconds on an emulated GPU.
local device = require "spec.support.device"
local long <const> = device.name == "cuda" and device.is_emulated() and 10000 or 70000

describe("sort", function()
   before_each(function() torch.manual_seed(4) end)

   it("is stable and puts NaN last, first when descending", function()
      local x = torch.tensor {2, nan, 0, -0.0, 2, nan, -math.huge}
      local values, indices = x:sort()
      assert.close({-math.huge, 0, 0, 2, 2, nan, nan}, values:tolist(), 0)
      assert.close({7, 3, 4, 1, 5, 2, 6}, indices:tolist(), 0)
      local _, back = x:sort(1, true)
      assert.close({2, 6, 1, 5, 3, 4, 7}, back:tolist(), 0)
   end)

   it("sorts rows of any length and dtype", function()
      for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16", "int8", "int16", "int32",
                              "int64", "uint8", "bool"} do
         for _, n in ipairs {1, 2, 15, 16, 17, 100, 383, 384, 1000, long} do
            local x = torch.randint(dtype == "uint8" and 0 or -100, 100, {2, n}):to(dtype)
            local values, indices = x:sort(2)
            assert.is_true(torch.equal(values, x:gather(2, indices)))
            if n > 1 then
               local first, second = values:narrow(2, 1, n - 1), values:narrow(2, 2, n - 1)
               assert.is_true(first:le(second):all():item())
               local tied = first:eq(second)
               local ascending = indices:narrow(2, 1, n - 1):lt(indices:narrow(2, 2, n - 1))
               assert.is_true((ascending | ~tied):all():item())
            end
         end
      end
   end)

   it("sorts integers from any part of their range", function()
      for _, ends in ipairs {{math.mininteger, math.maxinteger}, {2^62, 2^62 + 70000},
                             {-2^40, 2^40}, {-2^31, 2^31 - 1}} do
         local low, high = math.tointeger(ends[1]), math.tointeger(ends[2])
         for _, n in ipairs {20, 1000, long} do
            local list = {}
            for i = 1, n do list[i] = math.random(low, high) end
            list[n // 2], list[n] = high, low
            local x = torch.tensor(list, {dtype = "int64"})
            table.sort(list)
            assert.close(list, x:sort():tolist(), 0)
            assert.are.equal(high, x:sort(1, true)[1]:item())
         end
      end
   end)

   it("gives the same for every number of threads", function()
      local before = torch.get_num_threads()
      local x = torch.randint(1, 1000, {3 * long}):double()
      torch.set_num_threads(1)
      local values, indices = x:sort()
      torch.set_num_threads(3)
      local again, positions = x:sort()
      torch.set_num_threads(before)
      assert.is_true(torch.equal(values, again) and torch.equal(indices, positions))
   end)
end)

describe("topk", function()
   before_each(function() torch.manual_seed(4) end)

   it("gives the first elements of the sorted row", function()
      for _, n in ipairs {1, 10, 255, 256, 5000} do
         for _, k in ipairs {1, 3, n // 5, n} do
            if k <= n then
               local x = torch.randint(1, 50, {3, n}):float()
               for _, largest in ipairs {true, false} do
                  local values, indices = x:topk(k, 2, largest)
                  local sorted, order = x:sort(2, largest)
                  assert.is_true(torch.equal(sorted:narrow(2, 1, k), values))
                  assert.is_true(torch.equal(order:narrow(2, 1, k), indices))
               end
            end
         end
      end
   end)

   it("refuses more than the row has", function()
      assert.raises("topk", "k", "0 to 3", "4", function() torch.ones(3):topk(4) end)
   end)
end)

describe("selection by rank", function()
   it("gives the median that is NaN if one is, the lower one of an even number", function()
      assert.are.equal(2, torch.tensor {4.0, 2, 1, 3}:median():item())
      assert.close(nan, torch.tensor {4.0, nan, 1}:median():item(), 0)
      assert.are.equal(1, torch.tensor {4.0, nan, 1}:nanmedian():item())
      local _, position = torch.tensor {4.0, nan, 1}:median(1)
      assert.are.equal(2, position:item())
   end)

   it("shares the gradient among elements equal to the median", function()
      local x = torch.tensor({1.0, 2, 2, 3}, {requires_grad = true})
      x:median():backward()
      assert.close({0, 0.5, 0.5, 0}, x.grad:tolist(), 0)
   end)

   it("counts kthvalue from 1", function()
      local value, position = torch.tensor {30.0, 10, 20}:kthvalue(1)
      assert.are.equal(10, value:item())
      assert.are.equal(2, position:item())
      assert.raises("kthvalue", "1 to 3", "0", function() torch.ones(3):kthvalue(0) end)
   end)

   it("finds the most frequent element and its last position", function()
      local value, position = torch.tensor {5, 3, 3, 5, 1}:mode()
      assert.are.equal(3, value:item())
      assert.are.equal(3, position:item())
   end)
end)

describe("sets", function()
   it("rebuild their list from the inverse", function()
      local x = torch.randint(1, 20, {4, 30})
      local output, inverse, counts = x:unique(true, true, true)
      assert.is_true(torch.equal(x, output[inverse]))
      assert.are.equal(120, counts:sum():item())
      local slices, back = x:unique {dim = 2, return_inverse = true}
      assert.is_true(torch.equal(x, slices:index_select(2, back)))
   end)

   it("omit data that was not requested", function()
      local x = torch.tensor {3, 1, 3}
      assert.are.equal(1, select("#", x:unique()))
      local _, counts = x:unique(true, false, true)
      assert.close({1, 2}, counts:tolist(), 0)
   end)

   it("have no empty slices", function()
      assert.raises("unique: dim", "[2, 0]", function() torch.zeros(2, 0):unique {dim = 1} end)
      assert.raises("unique_consecutive: dim", function() torch.tensor(1):unique_consecutive {dim = 1} end)
      assert.same({2, 0}, torch.zeros(2, 0):unique({dim = 2}).shape)
   end)

   it("order slices as they are read row by row", function()
      local x = torch.tensor {{{1, 1, 0}, {0, 1, 0}}, {{0, 0, 1}, {1, 0, 0}}}
      for _, sorted in ipairs {true, false} do
         assert.same({{{0, 1, 1}, {0, 0, 1}}, {{1, 0, 0}, {0, 1, 0}}}, x:unique({dim = 3, sorted = sorted}):tolist())
      end
   end)

   it("keep every NaN", function()
      assert.are.equal(3, torch.tensor {nan, 1, nan, 1}:unique():numel())
      assert.close({false, true}, torch.isin(torch.tensor {nan, 1}, torch.tensor {nan, 1}):tolist(), 0)
   end)

   it("are empty of an empty list", function()
      local output, inverse = torch.empty(0):unique(true, true)
      assert.are.equal(0, output:numel() + inverse:numel())
      assert.close({false}, torch.isin(torch.tensor {1}, torch.empty(0)):tolist(), 0)
   end)
end)
