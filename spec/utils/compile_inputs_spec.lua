-- Tests that compiled calls notice changes of the memory, the graph history and the identity of their tensors. Also
-- tests that nothing is left behind when a call fails or never returns.
local torch = require "tlua"
local nested = require "tlua.export.nested"
local device = require "spec.support.device"
local watch = require "tlua.compile.watch"
local nn, F = torch.nn, torch.nn.functional

-- With `fullgraph`, the compiled program runs even if it is no faster. On devices other than the CPU, calls with
-- gradients run the original function instead.
local options <const> = device.name and {} or {fullgraph = true}

local function same(a, b)
   assert.same({table.unpack(a.shape)}, {table.unpack(b.shape)})
   assert.is_true(nested.same_bits(a:detach(), b:detach()))
end

-- Checks that a compiled function returns the same results as the original function, for each of the inputs that next()
-- makes.
local function follows(fn, next, count, gradients)
   local fast = torch.compile(fn, options)
   local _ <close> = gradients and torch.enable_grad() or torch.no_grad()
   for k = 1, count do
      local x = next(k)
      same(fn(x), fast(x))
   end
end

describe("a compiled function", function()
   it("adds inputs of any strides in the function's order", function()
      local layouts <const> = {
         expanded = function() return torch.randn(1, 1024):expand(33, 1024) end,
         transposed = function() return torch.randn(130, 65):t() end,
         ["a part"] = function() return torch.randn(90, 70):narrow(2, 3, 41) end,
         overlapping = function() return torch.randn(500):unfold(1, 7, 3) end,
      }
      for name, make in pairs(layouts) do
         torch.manual_seed(3)
         for _, fn in ipairs {
            function(x) return x:norm() end, function(x) return x:sum() + x:mean() end,
            function(x) return (x * 3):sum(1) end, function(x) return x:exp():sum() end,
         } do
            local fine, why = pcall(follows, fn, make, 25)
            assert.is_true(fine, ("%s: %s"):format(name, why))
         end
      end
   end)

   it("finds the elements of an input that begins anywhere in its memory", function()
      local rows = torch.arange(1, 25, {dtype = "float32"}):reshape(4, 6)
      for _, fn in ipairs {
         function(x) return x.data * 2 end, function(x) return x:view(2, 3).data * 2 end,
         function(x) return x[2] * 2 + x[5] end,
         function(x) return x:narrow(1, 3, 2).data + 1 end, function(x) return x:as_strided({2, 2}, {2, 1}) * 2 end,
      } do
         for _, gradients in ipairs {false, true} do
            follows(fn, function(k)
               local row = rows[k < 5 and 1 or k - 3]
               return gradients and row:detach():requires_grad_() or row
            end, 7, gradients)
         end
      end
      local function fn(x) return x:as_strided({2, 2}, {2, 1}, 0) * 2 end
      assert.is_truthy(torch.compiler.explain(fn, rows[1]).reason:find("takes a place", 1, true))
   end)

   it("returns a tensor twice where the function does", function()
      for _, gradients in ipairs {false, true} do
         local fast = torch.compile(function(x)
            local y = x * 2
            return y, {y, x + 1}, y
         end, options)
         local _ <close> = gradients and torch.enable_grad() or torch.no_grad()
         for _ = 1, 5 do
            local a, list, b = fast(torch.ones(3, {requires_grad = gradients}))
            assert.is_true(rawequal(a, b) and rawequal(a, list[1]))
            assert.is_false(rawequal(a, list[2]))
            assert.same({2, 2, 2}, b:tolist())
         end
      end
   end)

   it("asks whether its argument is a leaf", function()
      local function fn(x) return x * (x.is_leaf and 2 or 3) end
      local fast, x = torch.compile(fn), torch.ones(2, {requires_grad = true})
      for _ = 1, 4 do assert.same({2, 2}, fast(x):tolist()) end
      assert.same({6, 6}, fast(x * 2):tolist())
      assert.is_truthy(torch.compiler.explain(fn, x).reason:find("is_leaf", 1, true))
   end)

   it("draws the function's random numbers again when a program fails", function()
      local w = torch.ones(4, 3)
      local function fn(x, i) return F.dropout(x, 0.5, true) + w:index_select(1, i) end
      local fast = torch.compile(fn, options)
      local _ <close> = torch.no_grad()
      local states = {}
      for side, run in ipairs {fn, fast} do
         torch.manual_seed(5)
         for k = 1, 6 do
            local i = torch.tensor({k == 5 and 9 or 2}, {dtype = "int64"})
            assert.equal(k ~= 5 or device.name ~= nil, pcall(run, torch.ones(1, 3), i))
            if device.fault() and k ~= 5 then error "a call failed" end
         end
         states[side] = torch.rand(2)
      end
      same(states[1], states[2])
   end)

   it("ends an observation when a coroutine yields and is not resumed", function()
      local env = {coroutine = coroutine}
      local fn = load("local x = ... coroutine.yield(1) return x * 2", "fn", "t", env)
      local fast = torch.compile(fn)
      local run = coroutine.wrap(function() return fast(torch.ones(2)) end)
      assert.equal(1, run())
      assert.is_false(watch.running())
      assert.equal(env, select(2, debug.getupvalue(fn, 1)))
      assert.same({2, 2}, run():tolist())
      assert.is_nil(debug.gethook())
   end)
end)

it("torch.compile passes assignments to fields on to the original module", function()
   local model = nn.Dropout(0.5)
   local fast = torch.compile(model)
   fast.p = 0.0
   assert.equal(0.0, model.p)
   assert.same({1, 1, 1}, fast(torch.ones(3)):tolist())
   fast.training = false
   assert.is_false(model.training)
   model:train()
   assert.is_true(fast.training)
   fast:eval()
   assert.is_false(model.training)
   fast:train()
   assert.is_true(model.training and fast.training)
   local Net = torch.class("Net", nn.Module)
   function Net:__init() nn.Module.__init(self); self.head = nn.Linear(2, 3) end
   function Net:forward(x) return self.head(x) end
   fast = torch.compile(Net())
   fast.head = nn.Linear(2, 5)
   assert.equal(5, fast(torch.ones(1, 2)):size(2))
   assert.equal("_orig_mod.head.weight", (fast:named_parameters()()))
end)
