-- Tests that modes and torch.scope belong to the Lua thread (coroutine) that has set them.

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local x = torch.ones(2, {requires_grad = true})

local function records() return (x * 2).requires_grad end

-- Returns a coroutine that opens a scope. Each time it is resumed, it yields the modes that are in force inside the
-- scope.
local function in_scope(open)
   return coroutine.create(function()
      local _ <close> = open()
      while true do coroutine.yield(records()) end
   end)
end

local function resume(co, ...)
   local ok, value = coroutine.resume(co, ...)
   assert(ok, value)
   return value
end

describe("a mode set in a coroutine", function()
   it("does not hold in the resumer", function()
      local co = in_scope(torch.no_grad)
      for _ = 1, 3 do
         assert.is_false(resume(co))
         assert.is_true(records())
         assert.is_true(torch.is_grad_enabled())
      end
      coroutine.close(co)
      assert.is_true(records())
   end)

   it("is lost if the coroutine is abandoned, fails or ends", function()
      resume(in_scope(torch.no_grad))
      assert.is_true(records())
      local failing = coroutine.create(function()
         local _ <close> = torch.inference_mode()
         error "on purpose"
      end)
      assert.is_false(coroutine.resume(failing))
      assert.is_true(records())
      resume(coroutine.create(function() torch.set_grad_enabled(false) end))
      assert.is_true(records())
      collectgarbage()
      collectgarbage()
      assert.is_true(records())
   end)

   it("holds in coroutines that it resumes", function()
      local inner = coroutine.create(function()
         while true do coroutine.yield(records()) end
      end)
      local outer = coroutine.create(function()
         torch.no_grad(function() coroutine.yield(resume(inner)) end)
         coroutine.yield(resume(inner))
      end)
      assert.is_true(resume(inner))
      assert.is_false(resume(outer))
      assert.is_true(resume(inner))
      assert.is_true(resume(outer))
   end)

   it("takes precedence over the resumer's mode", function()
      local co = in_scope(torch.enable_grad)
      torch.no_grad(function()
         assert.is_true(resume(co))
         assert.is_false(records())
      end)
      assert.is_true(resume(co))
      local plain = coroutine.create(function()
         while true do coroutine.yield(records()) end
      end)
      assert.is_true(resume(plain))
      torch.no_grad(function() assert.is_false(resume(plain)) end)
      torch.inference_mode(function() assert.is_false(resume(plain)) end)
      assert.is_true(resume(plain))
   end)

   -- Two coroutines each set a mode and yield. Then the first coroutine resumes the second one, which resumes a third
   -- one without calling the library in between. The test is repeated for each way to resume a coroutine.
   local ways = {
      resume = resume,
      wrap = function(co) return coroutine.wrap(function() return resume(co) end)() end,
      pcall = function(co)
         local _, _, value = assert(pcall(coroutine.resume, co))
         return value
      end,
      metamethod = function(co)
         return setmetatable({}, {__index = function(_, thread) return resume(thread) end})[co]
      end,
      iterator = function(co)
         local value
         for seen in coroutine.wrap(function() coroutine.yield(resume(co)) end) do value = seen end
         return value
      end,
      sort = function(co)
         local value
         table.sort({1, 2}, function()
            value = resume(co)
            return false
         end)
         return value
      end,
   }
   local function seen_through(way, outer, inner, read)
      local plain = coroutine.create(read)
      local second = coroutine.create(function()
         local _ <close> = inner()
         coroutine.yield()
         return way(plain)
      end)
      local first = coroutine.create(function()
         local _ <close> = outer()
         coroutine.yield()
         records() -- the library is called for the last time before the third coroutine runs
         return way(second)
      end)
      resume(second)
      resume(first)
      return resume(first)
   end

   for name, way in sorted(ways) do
      it("is that of the nearest of several resumers: " .. name, function()
         assert.is_true(seen_through(way, torch.no_grad, torch.enable_grad, records))
         assert.is_false(seen_through(way, torch.enable_grad, torch.no_grad, records))
      end)
   end

   it("is that of the nearest resumer that has set it, independently of other modes", function()
      local function modes() return {torch.is_inference_mode_enabled(), records()} end
      assert.same({false, false}, seen_through(resume, torch.no_grad, torch.autograd.detect_anomaly, modes))
   end)

   it("may end in any order with others", function()
      local a, b = in_scope(torch.no_grad), in_scope(torch.no_grad)
      assert.is_false(resume(a))
      assert.is_false(resume(b))
      coroutine.close(a)
      assert.is_true(records())
      assert.is_false(resume(b))
      coroutine.close(b)
      assert.is_true(records())
   end)

   it("exists once for each kind", function()
      local co = coroutine.create(function()
         local _ <close> = torch.autograd.detect_anomaly()
         local _ <close> = torch.inference_mode()
         coroutine.yield()
         assert(torch.is_inference_mode_enabled() and torch.autograd.is_anomaly_enabled())
         local _ <close> = torch.inference_mode(false)
         assert(records() and not torch.is_inference_mode_enabled())
      end)
      resume(co)
      assert.is_false(torch.is_inference_mode_enabled())
      assert.is_false(torch.autograd.is_anomaly_enabled())
      assert.is_true(torch.is_grad_enabled())
      resume(co)
   end)

   it("holds for the passes that run in it", function()
      local seen = {}
      local w = torch.ones(2, {requires_grad = true})
      w:register_hook(function()
         seen[#seen + 1] = records()
         seen[#seen + 1] = resume(coroutine.create(records))
         resume(in_scope(torch.enable_grad)) -- this coroutine is not resumed again, so its scope stays open
         seen[#seen + 1] = records()
      end)
      resume(coroutine.create(function()
         local _ <close> = torch.inference_mode(false)
         local y = (w * 2):sum()
         y:backward()
         seen[#seen + 1] = records()
      end));
      (w * 2):sum():backward(nil, {create_graph = true})
      assert.same({false, false, false, true, true, true, true}, seen)
      assert.is_true(records())
      w.grad = nil
   end)

   it("holds after a finalizer has run coroutines of its own", function()
      local runs = 0
      local function again()
         setmetatable({}, {__gc = function()
            runs = runs + 1
            resume(in_scope(torch.no_grad))
            if runs < 50 then again() end
         end})
      end
      again()
      for _ = 1, 20000 do
         assert(records())
         if runs >= 50 then break end
      end
      assert.is_true(runs > 0)
   end)
end)

describe("modes of many coroutines", function()
   it("are independent", function()
      local list = {}
      for i = 1, 200 do list[i] = in_scope(i % 2 == 0 and torch.no_grad or torch.enable_grad) end
      for _ = 1, 3 do
         for i, co in ipairs(list) do assert.equal(i % 2 == 1, resume(co)) end
         assert.is_true(records())
      end
   end)

   it("take no memory after they end", function()
      local function round()
         for _ = 1, 1000 do
            local co = coroutine.create(function()
               local _ <close> = torch.no_grad()
               torch.scope(function()
                  local y <const> = torch.ones(100)
                  coroutine.yield(y)
               end)
            end)
            resume(co)
         end
      end
      local function used()
         collectgarbage()
         collectgarbage()
         collectgarbage()
         return torch.memory_stats().used, collectgarbage("count")
      end
      round()
      local before, heap = used()
      for _ = 1, 5 do round() end
      local after, grown = used()
      assert.is_true(after <= before)
      assert.is_true(grown < heap * 1.2 + 100)
   end)
end)

describe("anomaly mode", function()
   it("does not access coroutines that were collected", function()
      torch.autograd.detect_anomaly(function()
         for _ = 1, 20 do
            coroutine.wrap(function() return x * 2 end)()
            collectgarbage()
            collectgarbage()
            local base = torch.ones(4, {requires_grad = true}) * 1
            local view = base:view(2, 2)
            base:mul_(2)
            assert(view.grad_fn ~= nil) -- reading grad_fn makes the node
         end
      end)
   end)

   it("names the line of the coroutine's call", function()
      local line
      local y = coroutine.wrap(function()
         local _ <close> = torch.autograd.detect_anomaly()
         line = debug.getinfo(1, "l").currentline + 1
         return (x * 0 - 1):sqrt()
      end)()
      local ok, message = pcall(torch.autograd.detect_anomaly, function() y:sum():backward() end)
      assert.is_false(ok)
      assert.matches("coroutine_spec.lua:" .. line, message, 1, true)
   end)
end)

describe("torch.scope", function()
   it("in a coroutine ends no other coroutine's scope", function()
      local kept
      local a = coroutine.create(function()
         torch.scope(function()
            kept = torch.ones(2)
            coroutine.yield()
            assert(kept:sum():item() == 2)
         end)
      end)
      local b = coroutine.create(function()
         torch.scope(function() coroutine.yield() end)
         coroutine.yield()
      end)
      resume(a)
      resume(b)
      resume(b) -- b continues inside its scope and closes it, while a's scope is open
      assert.equal(2, kept:sum():item())
      resume(a)
      assert.equal("tensor(released)", tostring(kept))
   end)

   it("does not own tensors made by the coroutine's resumer", function()
      local co = coroutine.create(function() torch.scope(function() coroutine.yield() end) end)
      resume(co)
      local mine = torch.ones(3)
      resume(co)
      assert.equal(3, mine:sum():item())
   end)

   it("owns tensors made by coroutines that it resumes", function()
      local theirs
      torch.scope(function() resume(coroutine.create(function() theirs = torch.ones(3) end)) end)
      assert.equal("tensor(released)", tostring(theirs))
   end)

   it("is that of the nearest resumer", function()
      local outer, inner
      local plain = coroutine.create(function() return torch.ones(3) end)
      local second = coroutine.create(function()
         return torch.scope(function()
            coroutine.yield()
            inner = resume(plain)
            return "open"
         end)
      end)
      local first = coroutine.create(function()
         torch.scope(function()
            coroutine.yield()
            outer = torch.ones(3)
            assert(resume(second) == "open" and tostring(inner) == "tensor(released)")
            assert(outer:sum():item() == 3)
         end)
      end)
      resume(second)
      resume(first)
      resume(first)
      assert.equal("tensor(released)", tostring(outer))
   end)

   it("ends when its coroutine is closed", function()
      local inner
      local co = coroutine.create(function()
         torch.scope(function()
            inner = torch.ones(3)
            coroutine.yield()
         end)
      end)
      resume(co)
      coroutine.close(co)
      assert.equal("tensor(released)", tostring(inner))
      assert.equal(2, torch.scope(function() return torch.ones(2) end):sum():item())
   end)

   it("ends when its function fails, in a coroutine too", function()
      local inner
      local co = coroutine.create(function()
         torch.scope(function()
            inner = torch.ones(3)
            error "on purpose"
         end)
      end)
      local ok, message = coroutine.resume(co)
      assert.is_false(ok)
      assert.matches("on purpose", message)
      assert.equal("tensor(released)", tostring(inner))
   end)

   it("ends if its coroutine is abandoned", function()
      do
         local co = coroutine.create(function() torch.scope(function() coroutine.yield(torch.ones(2)) end) end)
         resume(co)
      end
      local before = torch.ones(2)
      collectgarbage()
      collectgarbage()
      local after = torch.scope(function() return torch.ones(2) end)
      assert.equal(4, (before + after):sum():item())
   end)

   it("passes its results to the enclosing scope, of any coroutine", function()
      local outer, inner
      torch.scope(function()
         resume(coroutine.create(function()
            outer = torch.scope(function()
               inner = torch.ones(1)
               return torch.ones(2)
            end)
            assert(outer:sum():item() == 2)
         end))
         assert(outer:sum():item() == 2 and tostring(inner) == "tensor(released)")
      end)
      assert.equal("tensor(released)", tostring(outer))
   end)
end)

describe("a function that is called with a number of seconds", function()
   local function loop() while true do end end

   it("is ended in its coroutines, too", function()
      local function nest() while true do pcall(coroutine.wrap(loop)) end end
      for _, fn in ipairs {
         loop, function() coroutine.wrap(loop)() end, function() while true do pcall(coroutine.wrap(nest)) end end,
         function() return ("x"):rep(1e5):find(("x*"):rep(20) .. "y") end,
      } do
         local late, ok, message = torch._within(0.01, fn)
         assert.is_true(late)
         assert.is_false(ok)
         assert.matches("used up its 0.01 seconds", message, 1, true)
      end
      assert.is_nil(debug.gethook())
   end)

   it("returns its results or its error, and has no limit inside another one", function()
      local function same(...) return ... end
      assert.same({false, true, 1, nil, 3, n = 5}, table.pack(torch._within(1e9, same, 1, nil, 3)))
      assert.same({false, false, "no"}, {torch._within(math.huge, function() error("no", 0) end)})
      local late, ok, message = torch._within(1e3, function() torch._within(1e3, loop) end)
      assert.is_false(late or ok)
      assert.matches("_within: this Lua state has limits already", message, 1, true)
      for _, seconds in ipairs {0, -1, 0 / 0} do
         assert.has_error(function() torch._within(seconds, loop) end,
            "bad argument #1 to '_within' (expected a positive number)")
      end
   end)
end)
