-- Tests torch._higher_order_ops: results, which must equal PyTorch 2.15's, gradients, programs, and refused arguments.

local torch = require "tlua"

local ops = torch._higher_order_ops

local function step(carry, x) return carry + x, carry * x end
local xs <const> = {{0, 1}, {2, 3}, {4, 5}}

local function raises(text, fn, ...)
   local arguments = table.pack(...)
   assert.raises(text, function() fn(table.unpack(arguments, 1, arguments.n)) end)
end

describe("torch._higher_order_ops.map", function()
   it("calls the function for each slice, and stacks the results", function()
      local x = torch.tensor(xs, {dtype = "float64", requires_grad = true})
      local y = ops.map(function(row, k) return {(row * row):sum() * k, s = row} end, x, 2)
      assert.same({{2, 26, 82}, xs}, {y[1]:tolist(), y.s:tolist()})
      y[1]:sum():backward()
      assert.same({{0, 4}, {8, 12}, {16, 20}}, x.grad:tolist())
      local z = ops.map(function(t) return t.a + t.b end, {a = x, b = torch.ones(3)})
      assert.same({{1, 2}, {3, 4}, {5, 6}}, z:tolist())
   end)

   it("refuses slices that do not fit", function()
      raises("map: f: expected a function, got 1", ops.map, 1, torch.ones(2))
      raises("map: xs: expected a tensor, or a table of tensors, got 1", ops.map, print, 1)
      raises("map: xs: tensor 1: expected at least 1 dimensions, got a float32 tensor of shape ()", ops.map, print,
         torch.tensor(1.0))
      raises("map: xs: tensor 2: expected size 2 in dimension 1, as in the first, got 3", ops.map, print,
         {torch.ones(2), torch.ones(3)})
      raises("map: xs: expected at least one slice", ops.map, print, torch.ones(0, 2))
      local calls = 0
      raises("map: expected results of one structure from all calls", ops.map, function(x)
         calls = calls + 1
         return calls == 1 and x or {x}
      end, torch.ones(2))
   end)
end)

describe("torch._higher_order_ops.scan", function()
   it("has PyTorch's carry and results, also in another dimension and in reverse", function()
      local x = torch.tensor(xs, {dtype = "float32"})
      local carry, ys = ops.scan(step, torch.zeros(2), x)
      assert.same({{6, 9}, {{0, 0}, {0, 3}, {8, 20}}}, {carry:tolist(), ys:tolist()})
      carry, ys = ops.scan(step, torch.zeros(3), x, {dim = 2, reverse = true})
      assert.same({{1, 5, 9}, {{0, 0}, {6, 0}, {20, 0}}}, {carry:tolist(), ys:tolist()})
      carry, ys = ops.scan(function(c, v) return c + v, (c * v):sum() end, torch.zeros(3), x, {dim = 2})
      assert.same({{1, 5, 9}, {0, 26}}, {carry:tolist(), ys:tolist()})
   end)

   it("takes tables, has gradients, and is recorded by torch.export", function()
      local function f(x)
         local carry, ys = ops.scan(function(c, v) return {c[1] * v.u, c[2] + 1}, {k = c[1] + v.w} end,
            {torch.ones(2), torch.tensor(0)}, {u = x, w = x:sum(2)})
         return carry[1], carry[2], ys.k
      end
      local x = torch.tensor({{1, 2}, {3, 4}}, {dtype = "float32", requires_grad = true})
      local a, n, k = f(x)
      assert.same({{3, 8}, 2, {{4, 4}, {8, 9}}}, {a:tolist(), n:item(), k:tolist()})
      a:sum():backward()
      assert.same({{3, 4}, {1, 2}}, x.grad:tolist())
      local program = torch.export(f, {torch.ones(2, 2)})
      local expected = {f(x:detach())}
      for i, y in ipairs {program(x:detach())} do assert(y:equal(expected[i])) end
   end)

   it("refuses arguments, carries and options that do not fit", function()
      local x, zero = torch.ones(3, 2), torch.zeros(2)
      raises("scan: combine_fn: expected a function, got nil", ops.scan, nil, zero, x)
      raises("scan: init: expected a tensor, or a table of tensors, got 1", ops.scan, step, 1, x)
      raises("scan: dim: expected a dimension from 1, got 0", ops.scan, step, zero, x, {dim = 0})
      raises("scan: xs: tensor 1: expected at least 3 dimensions", ops.scan, step, zero, x, {dim = 3})
      raises('scan: reverse: expected true or false, got "no"', ops.scan, step, zero, x, {reverse = "no"})
      raises("scan: unknown option revers; did you mean", ops.scan, step, zero, x, {revers = true})
      raises("scan: the carry of combine_fn: expected a float32 tensor of shape (2), as in init, got a float32 tensor "
         .. "of shape ()", ops.scan, function(c, v) return c:sum(), v end, zero, x)
      raises("scan: expected a carry from combine_fn with the structure of init", ops.scan,
         function(c, v) return {c}, v end, zero, x)
      raises("scan: xs: expected at least one slice in the dimension", ops.scan, step, zero, torch.ones(0, 2))
   end)
end)
