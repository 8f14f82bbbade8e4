-- Tests in-place changes of views, of tensors that have views, and of views of views. Constants are PyTorch's results.
-- Random programs are compared with finite differences.

local torch = require "tlua"

local function leaf(data) return torch.tensor(data, {dtype = "float64", requires_grad = true}) end

local function constant(data) return torch.tensor(data, {dtype = "float64"}) end

-- Returns {{1, 2, 3}, {4, 5, 6}} as a leaf, and a copy that is not a leaf.
local function matrix()
   local x = leaf {{1, 2, 3}, {4, 5, 6}}
   return x, x * 1
end

local function square_sum(x) return (x * x):sum() end

describe("a change of a view, recorded in its base's history", function()
   -- Each row has a name, a function that changes a copy of the matrix in place by the number w, the value of w, and
   -- the expected gradients of the sum of squares with respect to the matrix and to w.
   for _, row in ipairs {
      {"works through select", function(h) h[1]:mul_(10) end, grad = {{200, 400, 600}, {8, 10, 12}}},
      {"works through narrow", function(h)
         local v = h:narrow(2, 2, 2)
         v:mul_(v:detach():clone())
      end, grad = {{2, 16, 54}, {8, 250, 432}}},
      {"works through transpose and select", function(h, w) h:t()[2]:copy_(w) end, w = {2, 3},
         grad = {{2, 0, 6}, {8, 0, 12}}, grad_w = {4, 6}},
      {"works through diagonal", function(h) h:diagonal():zero_() end, grad = {{0, 4, 6}, {8, 0, 12}}},
      {"works through assignment to an index", function(h, w)
         h[{1, {2, 3}}] = w
         h[{2, 1}] = 9
      end, w = {7, 8}, grad = {{2, 0, 0}, {0, 10, 12}}, grad_w = {14, 16}},
      {"works repeatedly", function(h)
         local v = h[1]
         for _ = 1, 3 do v:mul_(2) end
      end, grad = {{2 * 64, 4 * 64, 6 * 64}, {8, 10, 12}}},
      -- (x1 x2)^2 + x2^2
      {"works if both operands are views of one base", function(h) h[1]:mul_(h[2]) end,
         grad = {{2 * 16, 4 * 25, 6 * 36}, {8 + 2 * 4, 10 + 2 * 5 * 4, 12 + 2 * 6 * 9}}},
   } do
      it(row[1], function()
         local x, h = matrix()
         local w = row.w and leaf(row.w)
         row[2](h, w)
         square_sum(h):backward()
         assert.close(row.grad, x.grad)
         if w then assert.close(row.grad_w, w.grad) end
      end)
   end

   it("is refused if the view was made without recording, as its previous values would get no gradient", function()
      local x, h = matrix()
      local v = torch.no_grad(function() return h[1] end)
      assert.is_false(v.requires_grad)
      for _, change in ipairs {
         function() v:copy_(leaf {2, 3, 4}) end, function() v:mul_(2) end, function() v:zero_() end,
      } do
         assert.raises("a view that was taken under torch.no_grad", change)
      end
      torch.no_grad(function() v:mul_(2) end)
      h[1]:mul_(10)
      square_sum(h):backward()
      assert.close({{400, 800, 1200}, {8, 10, 12}}, x.grad)
   end)

   it("works through view, with an operator that saves its result", function()
      local x, h = matrix()
      h:view(-1):exp_()
      h:log():sum():backward()
      assert.close({{1, 1, 1}, {1, 1, 1}}, x.grad)
   end)

   it("works if the base has no history", function()
      local w = leaf {2, 3, 4}
      local buffer = torch.zeros(2, 3, {dtype = "float64"})
      assert.is_false(buffer.requires_grad)
      buffer[1] = w
      buffer[2] = w * 2
      assert.is_true(buffer.requires_grad and not buffer.is_leaf);
      (buffer * constant {{1, 2, 3}, {4, 5, 6}}):sum():backward()
      assert.close({9, 12, 15}, w.grad)
   end)

   it("works for a view without elements that begins behind the base's memory", function()
      for _, view in ipairs {
         function(y) return y[{{}, 2}] end, function(y) return y[{{}, {2, 3}}] end,
         function(y) return y:narrow(2, 2, 2):t() end,
      } do
         local x = torch.zeros(0, 3, {requires_grad = true})
         local y = x * 2
         local part = view(y)
         part:add_(1)
         local shape = part.shape
         ;((part * 2):sum() + (y + 1):sum()):backward()
         assert.same(shape, part.shape)
         assert.same({0, 3}, x.grad.shape)
      end
   end)

   it("does not work through a detached tensor", function()
      local x, h = matrix()
      h:detach()[1]:mul_(2)
      h:sum():backward()
      assert.close({{1, 1, 1}, {1, 1, 1}}, x.grad)
      assert.close({{2, 4, 6}, {4, 5, 6}}, h)
   end)
end)

describe("a view's history", function()
   it("follows a change of the view", function()
      local x, h = matrix()
      local v = h[1]
      v:mul_(10)
      assert.equal("as_strided", v.grad_fn.name)
      assert.equal("mul", h.grad_fn.name)
      square_sum(v):backward()
      assert.close({{200, 400, 600}, {0, 0, 0}}, x.grad)
   end)

   it("follows a change of the base", function()
      local x, h = matrix()
      local v = h[2]
      h:mul_(3)
      assert.close({12, 15, 18}, v)
      square_sum(v):backward()
      assert.close({{0, 0, 0}, {72, 90, 108}}, x.grad)
   end)

   it("follows a change of another view", function()
      local x, h = matrix()
      local column, row = h:select(2, 1), h[2]
      column:mul_(10)
      square_sum(row):backward()
      assert.close({{0, 0, 0}, {2 * 400, 10, 12}}, x.grad)
   end)

   it("follows a change of a view of a view", function()
      local x, h = matrix()
      local v = h:t()
      v[{{2, 3}, {}}][1]:add_(5)
      square_sum(v):backward()
      assert.close({{2, 14, 6}, {8, 20, 12}}, x.grad)
   end)

   it("follows the first history of its base", function()
      local w = leaf {2, 3, 4}
      local buffer = torch.zeros(2, 3, {dtype = "float64"})
      local v = buffer[1]
      assert.is_false(v.requires_grad)
      buffer[1] = w
      assert.is_true(v.requires_grad and not v.is_leaf);
      (v * constant {1, 2, 3}):sum():backward()
      assert.close({1, 2, 3}, w.grad)
   end)

   it("is correct if its elements repeat the base's", function()
      local x, h = matrix()
      local v = h:expand(2, 2, 3)
      h:mul_(2)
      v:sum():backward()
      assert.close({{4, 4, 4}, {4, 4, 4}}, x.grad)
   end)

   it("does not affect earlier results of the view", function()
      local x, h = matrix()
      local v = h[1]
      local before = v * 2
      v:mul_(10);
      (before:sum() + v:sum()):backward()
      assert.close({{12, 12, 12}, {0, 0, 0}}, x.grad)
   end)

   it("is checked if the view was saved", function()
      local _, h = matrix()
      local y = h[1] * h[1]
      h[1]:add_(1)
      assert.raises("mul", "add_", function() y:sum():backward() end)
      local _, g = matrix()
      y = g[1] * g[1]
      g[2]:add_(1)
      assert.raises("mul", "add_", function() y:sum():backward() end)
   end)
end)

describe("second derivatives through a changed view", function()
   it("are right for a product", function()
      local x = leaf {{1, 2, 3}, {4, 5, 6}}
      local h = x * x
      h[1]:mul_(x[2])
      local g = torch.autograd.grad(h:sum(), x, {create_graph = true})
      assert.close({{8, 20, 36}, {9, 14, 21}}, g)
      square_sum(g):backward()
      assert.close({{164, 512, 1116}, {68, 216, 516}}, x.grad)
   end)

   it("are right for an operator that saves its result", function()
      local x, h = matrix()
      h[1]:exp_()
      local g = torch.autograd.grad(square_sum(h), x, {create_graph = true})
      local e = math.exp
      assert.close({{2 * e(2), 2 * e(4), 2 * e(6)}, {8, 10, 12}}, g, 1e-12)
      assert.close({{4 * e(2), 4 * e(4), 4 * e(6)}, {2, 2, 2}}, (torch.autograd.grad(g:sum(), x)), 1e-12)
   end)
end)

it("a leaf made of a view has its own history", function()
   local base = torch.ones(2, 3, {dtype = "float64"})
   local v = base[1]:requires_grad_()
   assert.is_true(v.is_leaf)
   square_sum(v):backward()
   assert.close({2, 2, 2}, v.grad)
   assert.raises("leaf", function() v:add_(1) end)
   assert.raises("leaf", function() v[1] = 2 end)
   local w = leaf {1, 2, 3}
   base[2] = w
   assert.is_true(v.is_leaf)
   assert.is_nil(v.grad_fn)
end)

-- Random programs --------------------------------------------------------------------------------

-- Makes a program: a list of steps that work on a list of tensors. Tensor 1 is the base, and each new view is appended.
-- `random` chooses the steps; the program can run with any input.
local function random_program(random)
   local shapes, steps = {{3, 4}}, {}
   local function pick(n) return random(1, n) end

   local function add_view()
      local of = pick(#shapes)
      local shape = shapes[of]
      local kinds = {"narrow"}
      if #shape == 2 then kinds = {"narrow", "select", "transpose", "diagonal", "strided"} end
      local kind, dim = kinds[pick(#kinds)], pick(#shape)
      if kind == "select" then
         local index = pick(shape[dim])
         steps[#steps + 1] = function(t) t[#t + 1] = t[of]:select(dim, index) end
         shapes[#shapes + 1] = {shape[3 - dim]}
      elseif kind == "transpose" then
         steps[#steps + 1] = function(t) t[#t + 1] = t[of]:t() end
         shapes[#shapes + 1] = {shape[2], shape[1]}
      elseif kind == "diagonal" then
         steps[#steps + 1] = function(t) t[#t + 1] = t[of]:diagonal() end
         shapes[#shapes + 1] = {math.min(shape[1], shape[2])}
      elseif kind == "strided" then
         local begin = pick(shape[dim])
         local range = {{}, {}}
         range[dim] = {begin, shape[dim], 2}
         steps[#steps + 1] = function(t) t[#t + 1] = t[of][range] end
         shapes[#shapes + 1] = {shape[1], shape[2]}
         shapes[#shapes][dim] = (shape[dim] - begin) // 2 + 1
      else
         local begin = pick(shape[dim])
         local length = pick(shape[dim] - begin + 1)
         steps[#steps + 1] = function(t) t[#t + 1] = t[of]:narrow(dim, begin, length) end
         shapes[#shapes + 1] = {table.unpack(shape)}
         shapes[#shapes][dim] = length
      end
   end

   -- Returns as many elements of w as the shape has, in that shape.
   local function piece(w, shape)
      local n = 1
      for _, size in ipairs(shape) do n = n * size end
      return w:narrow(1, 1, n):view(table.unpack(shape))
   end

   local function add_change()
      local at, kind = pick(#shapes), pick(7)
      local shape = shapes[at]
      steps[#steps + 1] = function(t, w)
         local v = t[at]
         if kind == 1 then v:mul_(0.5)
         elseif kind == 2 then v:add_(piece(w, shape))
         elseif kind == 3 then v:mul_(piece(w, shape))
         elseif kind == 4 then v:sin_()
         elseif kind == 5 then v:copy_(piece(w, shape))
         elseif kind == 6 then v:mul_(v)
         else v:sub_(v * 0.25) end
      end
   end

   for _ = 1, 8 do
      if pick(2) == 1 then add_view() else add_change() end
   end
   add_change()
   local last = pick(#shapes)
   return function(x, w)
      local t = {x * 1}
      for _, step in ipairs(steps) do step(t, w) end
      local loss = (t[1] * t[1]):sum() + t[last]:tanh():sum() * 3
      return loss
   end
end

-- Returns the gradient of f with respect to its i-th argument, by central differences.
local function difference(f, args, i)
   local at, out = args[i], {}
   local flat = at:view(-1)
   for k = 1, at:numel() do
      local value = flat[k]:item()
      local function f_at(moved)
         flat[k] = moved
         return f(table.unpack(args)):item()
      end
      out[k] = (f_at(value + 1e-5) - f_at(value - 1e-5)) / 2e-5
      flat[k] = value
   end
   return constant(out):view(table.unpack(at.shape))
end

-- Returns a function that draws integers from low to high. The sequence is the same on every machine.
local function generator(state)
   return function(low, high)
      state = (state * 1103515245 + 12345) & 0x7fffffff
      return low + (state >> 8) % (high - low + 1)
   end
end

-- Returns a random program, its input and its weights.
local function random_case(random)
   local f, values, weights = random_program(random), {}, {}
   for i = 1, 12 do values[i], weights[i] = (random(0, 2000) - 1000) / 1000, (random(0, 2000) - 1000) / 1000 end
   return f, constant(values):view(3, 4), constant(weights)
end

describe("random programs of views and in-place changes", function()
   it("have the gradient that finite differences give", function()
      local random = generator(12345)
      for number = 1, 150 do
         local f, x, w = random_case(random)
         local expected_x = difference(f, {x, w}, 1)
         local expected_w = difference(f, {x, w}, 2)
         local lx, lw = x:clone():requires_grad_(), w:clone():requires_grad_()
         local gx, gw = torch.autograd.grad(f(lx, lw), {lx, lw}, {allow_unused = true})
         local hint = "program " .. number
         assert.close(expected_x, gx or torch.zeros_like(x), 1e-7, hint)
         assert.close(expected_w, gw or torch.zeros_like(w), 1e-7, hint)
      end
   end)

   it("have the second derivative that finite differences give", function()
      local random = generator(54321)
      for _ = 1, 30 do
         local f, x, w = random_case(random)
         local function slope(at)
            at = at.requires_grad and at or at:clone():requires_grad_()
            local g = torch.autograd.grad(f(at, w), at, {create_graph = true})
            return (g * g):sum()
         end
         local expected = difference(slope, {x}, 1)
         local at = x:clone():requires_grad_()
         local s = slope(at) -- the slope may be constant, so that it has no derivative of its own
         local actual = s.requires_grad and torch.autograd.grad(s, at, {allow_unused = true})
         -- the slope itself is a finite difference, which amplifies rounding errors by 1e5
         assert.close(expected, actual or torch.zeros_like(x), 1e-6 + 1e-9 * s:item())
      end
   end)
end)
