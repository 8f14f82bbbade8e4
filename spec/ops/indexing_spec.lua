-- Tests cases of reading and writing by position that functional_spec does not test.

local torch = require "tlua"

local function each_thread_count(fn)
   local before = torch.get_num_threads()
   torch.set_num_threads(1)
   local expected = fn()
   for threads = 2, 5 do
      torch.set_num_threads(threads)
      assert.is_true(torch.equal(expected, fn()))
   end
   torch.set_num_threads(before)
end

describe("gather and scatter", function()
   before_each(function() torch.manual_seed(2) end)

   it("count from 1 and refuse 0, negative and too large positions", function()
      local x = torch.tensor {{1, 2, 3}, {4, 5, 6}}
      assert.close({{3, 1}, {5, 5}}, x:gather(2, torch.tensor {{3, 1}, {2, 2}}):tolist(), 0)
      for _, position in ipairs {0, 4, -1} do
         assert.raises("gather", "position " .. position, "1 to 3",
            function() x:gather(2, torch.tensor {{position}}) end)
      end
   end)

   it("let the last one of several elements win", function()
      local x = torch.zeros(3)
      x:scatter_(1, torch.tensor {2, 2, 1, 2}, torch.tensor {1.0, 2, 3, 4})
      assert.close({3, 4, 0}, x:tolist(), 0)
   end)

   it("change nothing when a position is wrong", function()
      -- These tests run on the CPU, because a device would report the errors later.
      local cpu <const> = {device = "cpu"}
      local x = torch.zeros(4, cpu)
      pcall(x.scatter_, x, 1, torch.tensor({1, 2, 9}, cpu), torch.ones(3, cpu))
      pcall(x.index_add_, x, 1, torch.tensor({1, 9}, cpu), torch.ones(2, cpu))
      pcall(x.put_, x, torch.tensor({1, 9}, cpu), torch.ones(2, cpu))
      pcall(function() x[torch.tensor({1, 9}, cpu)] = 5 end)
      assert.close({0, 0, 0, 0}, x:tolist(), 0)
   end)

   it("read a source that they write to as it was", function()
      local x = torch.tensor {1.0, 2, 3, 4}
      x:scatter_(1, torch.tensor {2, 3, 4, 1}, x)
      assert.close({4, 1, 2, 3}, x:tolist(), 0)
   end)

   it("write through views", function()
      local x = torch.zeros(3, 4)
      x:t():index_add_(1, torch.tensor {2, 2, 4}, torch.ones(3, 3))
      assert.close({0, 2, 0, 1}, x[1]:tolist(), 0)
      x:t()[{torch.tensor {1, 3}, 2}] = 7
      assert.close({7, 2, 7, 1}, x[2]:tolist(), 0)
   end)

   it("give the same bits for every number of threads", function()
      local index, rows = torch.randint(1, 501, {100000}), torch.randint(1, 41, {3000})
      local values, table_ = torch.randn(100000), torch.randn(3000, 70)
      each_thread_count(function() return torch.zeros(500):scatter_add(1, index, values) end)
      each_thread_count(function() return torch.zeros(500):index_add(1, index, values) end)
      each_thread_count(function() return torch.zeros(40, 70):index_add(1, rows, table_) end)
      each_thread_count(function() return torch.zeros(70, 40):index_add(2, rows, table_:t()) end)
      each_thread_count(function() return values[index % 100000 + 1] end)
   end)

   it("add half types in float32", function()
      local x = torch.zeros(1, {dtype = "float16"})
      x:index_add_(1, torch.ones(4096, {dtype = "int64"}), torch.full({4096}, 0.25):half())
      assert.close(1024, x:item(), 0)
   end)

   it("take any layout and dtype", function()
      for _, dtype in ipairs {"float64", "float16", "int8", "int64", "uint8", "bool"} do
         local x = torch.randint(0, 2, {4, 6}):to(dtype)
         local index = torch.randint(1, 5, {5, 6})
         assert.is_true(torch.equal(x:t():contiguous():gather(2, index:t()), x:gather(1, index):t()))
         local y = torch.zeros(5, 6, {dtype = dtype}):scatter(1, torch.randint(1, 6, {4, 6}), x)
         assert.are.equal(dtype, y.dtype)
      end
   end)
end)

describe("x[...]", function()
   local x = torch.range(1, 24):view(2, 3, 4)

   it("puts the index's dimensions in place of those it takes, first if they stand apart", function()
      local i = torch.tensor {{1, 2}, {2, 1}}
      assert.are.same({2, 2, 2, 4}, x[{{}, i}].shape)
      assert.are.same({2, 2, 3}, x[{i, {}, i}].shape)
      assert.are.same({2, 2, 4}, x[{i, i}].shape)
   end)

   it("takes masks of one or several dimensions", function()
      assert.close(x:masked_select(x:gt(20)), x[x:gt(20)], 0)
      assert.are.same({2, 4}, x[torch.tensor {{true, false, false}, {false, false, true}}].shape)
      assert.raises("index", "mask of shape [4]", "[2, 3, 4]",
         function() return x[torch.tensor {true, false, true, true}] end)
   end)

   it("counts negative positions from the end", function()
      assert.close(x[torch.tensor {2, 1}], x[torch.tensor {-1, -2}], 0)
      assert.raises("index", "position -3", function() return x[torch.tensor {-3}] end)
   end)

   it("adds up values for the same position with accumulate", function()
      local y = torch.zeros(3)
      y:index_put_({torch.tensor {1, 3, 1, 1}}, torch.tensor {1.0, 2, 3, 4}, true)
      assert.close({8, 0, 2}, y:tolist(), 0)
   end)

   it("refuses values that do not broadcast", function()
      local y = torch.zeros(3, 4)
      assert.raises("index_put", "[2, 4]", "[3]", function() y[torch.tensor {1, 2}] = torch.ones(3) end)
   end)
end)

describe("ipairs of a tensor", function()
   local function rows(x)
      local list = {}
      for i, row in ipairs(x) do list[i] = row:tolist() end
      return list
   end

   it("iterates over the rows and ends", function()
      assert.same({{1, 2}, {3, 4}, {5, 6}}, rows(torch.tensor {{1, 2}, {3, 4}, {5, 6}}))
      assert.same({}, rows(torch.zeros(0, 2)))
      assert.same({{true}}, rows(torch.tensor {{true}}:to "sim"))
      local scalar = torch.tensor(1)
      assert.raises("index: 1 positions for a tensor of 0 dimensions",
         function() for _ in ipairs(scalar) do error "never" end end)
      local count = 0
      for _ in ipairs(torch.zeros(2, 2)) do
         for _ in ipairs(torch.zeros(3)) do count = count + 1 end
      end
      assert.equal(6, count)
   end)

   it("records gradients of its rows", function()
      local x = torch.tensor {1.0, 2.0, 3.0}:requires_grad_()
      local sum = 0
      for i, element in ipairs(x) do sum = sum + i * element end
      sum:backward()
      assert.same({1, 2, 3}, x.grad:tolist())
   end)

   it("is the only way to read behind the end", function()
      local x = torch.zeros(3)
      assert.raises("index", function() return x[4] end)
      assert.raises("index", function() return x[{4}] end)
      assert.raises("index", function()
         local resumed, message = coroutine.resume(coroutine.create(function() return x[4] end))
         if not resumed then error(message) end
      end)
      local step = ipairs {}
      assert.is_nil((step(x, 3)))
      assert.raises("index", function() local _ = step(x, 4) end)
      assert.raises("index", function() local _ = table.unpack(x, 1, 4) end)
   end)
end)

describe("masks", function()
   it("fill, select and scatter in the order of memory as seen", function()
      local x = torch.range(1, 6):view(2, 3):t()
      local mask = x:gt(2)
      assert.close({4, 5, 3, 6}, x:masked_select(mask):tolist(), 0)
      assert.close({{1, 0}, {2, 0}, {0, 0}}, x:masked_fill(mask, 0):tolist(), 0)
      assert.close({{1, 10}, {2, 20}, {30, 40}},
         x:masked_scatter(mask, torch.tensor {10.0, 20, 30, 40, 50}):tolist(), 0)
   end)

   it("give positions of all dimensions, in order", function()
      local rows = torch.tensor {{0, 3}, {0.5, 0}}:nonzero()
      assert.close({{1, 2}, {2, 1}}, rows:tolist(), 0)
      assert.are.same({1, 0}, torch.tensor(5):nonzero().shape)
      assert.are.same({0, 2}, torch.zeros(2, 2):nonzero().shape)
      local lists = torch.tensor {{0, 3}, {0.5, 0}}:nonzero {as_tuple = true}
      assert.close({2, 1}, lists[2]:tolist(), 0)
      assert.close({{2}}, torch.tensor {0, 4}:nonzero {as_tuple = false}, 0)
   end)

   it("find large ones", function()
      local x = torch.zeros(300000)
      x[{{1, -1, 70001}}] = 1
      assert.close({1, 70002, 140003, 210004, 280005}, x:nonzero():view(-1):tolist(), 0)
   end)
end)

it("searchsorted gives positions from 1 to one past the end, NaN after all numbers", function()
   local sorted = torch.tensor {1.0, 2, 2, 5}
   local values = torch.tensor {0.0, 2, 5, 9, 0 / 0}
   assert.close({1, 2, 4, 5, 5}, torch.searchsorted(sorted, values):tolist(), 0)
   assert.close({1, 4, 5, 5, 5}, torch.searchsorted(sorted, values, {side = "right"}):tolist(), 0)
   assert.close({2, 3, 1, 4}, torch.searchsorted(torch.tensor {5.0, 1, 2},
      torch.tensor {1.5, 3, 0, 9}, {sorter = torch.tensor {2, 3, 1}}):tolist(), 0)
end)

it("copies with one part replaced take ranges that include their end", function()
   local x = torch.zeros(5)
   assert.close({0, 1, 1, 1, 0}, x:slice_scatter(torch.ones(3), 1, 2, 4):tolist(), 0)
   assert.close({0, 0, 0, 1, 1}, x:slice_scatter(torch.ones(2), 1, -2):tolist(), 0)
   assert.close({0, 0, 0, 0, 0}, x:tolist(), 0)
   assert.raises("slice_scatter", "[3]", "[2]", function() x:slice_scatter(torch.ones(2), 1, 2, 4) end)
end)

it("unravel_index gives positions in each dimension", function()
   local x = torch.arange(24):reshape(2, 3, 4)
   local at = torch.tensor {{1, 7}, {18, -1}}
   local places = torch.unravel_index(at, {2, 3, 4})
   assert.equal(3, #places)
   assert.close(x:take(at), x[{places[1], places[2], places[3]}], 0)
   assert.close({3}, torch.unravel_index(torch.tensor {3}, 6)[1], 0)
   assert.raises("unravel_index: indices: position 25", "1 to 24",
      function() torch.unravel_index(torch.tensor {25}, {2, 3, 4}) end)
end)

it("positions from the end serve take_along_dim", function()
   local x = torch.tensor {{1, 2, 3}, {4, 5, 6}}
   assert.close({{3}, {4}}, x:take_along_dim(torch.tensor {{-1}, {-3}}, 2), 0)
   assert.close({6, 1}, x:take_along_dim(torch.tensor {-1, 1}), 0)
end)

it("a tensor without dimensions has one position", function()
   local x, none = torch.tensor(2.0), torch.zeros(0, {dtype = "int64"})
   assert.close(2, x:index_select(1, torch.tensor {1}), 0)
   assert.close(2, x:index_fill(1, none, 7), 0)
   assert.raises("index_select", "[0]", function() x:index_select(1, none) end)
   assert.raises("repeat_interleave", "2", function() x:repeat_interleave(3, 2) end)
end)

it("index_fill with a tensor counts a position that is listed twice once", function()
   local x, value = torch.ones(2, 4, {requires_grad = true}), torch.tensor(5.0, {requires_grad = true})
   local y = x:index_fill(2, torch.tensor {3, -2, 1}, value)
   assert.close({{5, 1, 5, 1}, {5, 1, 5, 1}}, y, 0)
   y:sum():backward()
   assert.equal(4, value.grad:item())
   assert.close({{0, 1, 0, 1}, {0, 1, 0, 1}}, x.grad, 0)
end)

it("where as a method keeps self where the condition is true", function()
   local x = torch.tensor({1.0, 2, 3}, {requires_grad = true})
   local y = x:where(torch.tensor {true, false, true}, -1)
   assert.close({1, -1, 3}, y, 0)
   y:sum():backward()
   assert.close({1, 0, 1}, x.grad, 0)
end)

it("index_reduce joins the rows that index lists", function()
   local x, index = torch.tensor {2.0, 3, 5}, torch.tensor {1, 3, 1}
   local source = torch.tensor {7.0, 11, 13}
   for reduce, row in pairs {prod = {{182, 3, 55}, {91, 3, 11}}, mean = {{22 / 3, 3, 8}, {10, 3, 11}},
                             amax = {{13, 3, 11}, {13, 3, 11}}, amin = {{2, 3, 5}, {7, 3, 11}}} do
      assert.close(row[1], x:index_reduce(1, index, source, reduce), 1e-6)
      assert.close(row[2], x:index_reduce(1, index, source, reduce, {include_self = false}), 1e-6)
   end
   assert.equal(x, x:index_reduce_(1, index, source, "amax"))
   assert.raises("index_reduce: reduce", "index_add", function() x:index_reduce(1, index, source, "sum") end)
end)

it("nonzero_static has as many rows as its argument demands", function()
   local x = torch.tensor {{0, 1}, {1, 1}}
   assert.same({{1, 2}, {2, 1}, {2, 2}}, x:nonzero_static({size = 3}):tolist())
   assert.same({{1, 2}, {2, 1}}, x:nonzero_static({size = 2}):tolist())
   assert.same({{1, 2}, {2, 1}, {2, 2}, {-1, -1}}, x:nonzero_static({size = 4}):tolist())
   assert.same({{1}, {9}}, torch.nonzero_static(torch.tensor {3, 0}, {size = 2, fill_value = 9}):tolist())
   assert.same({0, 2}, x:nonzero_static({size = 0}).shape)
   assert.raises("nonzero_static: size: expected at least 0, got -1", function() x:nonzero_static({size = -1}) end)
end)

-- The reference calls scatter with a copy of the index, whose elements all have their own memory.
it("scatter reads an expanded index as its copy, along each dimension", function()
   for _, dim in ipairs {1, 2} do
      local index = torch.tensor(dim == 1 and {{2}, {1}, {2}} or {{3, 1, 3, 2}}):expand(3, 4)
      local source = torch.arange(12):reshape(3, 4) + 1.5
      local target = torch.ones(3, 4)
      for _, reduce in ipairs {"sum", "prod", "mean", "amax", "amin"} do
         assert.close(target:scatter_reduce(dim, index:contiguous(), source, reduce),
            target:scatter_reduce(dim, index, source, reduce))
      end
      assert.close(target:scatter_add(dim, index:contiguous(), source), target:scatter_add(dim, index, source))
      assert.close(target:scatter(dim, index:contiguous(), 7), target:scatter(dim, index, 7))
   end
   assert.raises("scatter_add: index", function()
      torch.ones(3, 4):scatter_add(1, torch.tensor {{4}}:expand(1, 4), torch.ones(1, 4))
   end)
end)
