-- Tests tlua.scope, which changes a setting while a function runs or until a scope ends.

local torch = require "tlua"
local scopes = require "tlua.scope"

describe("a scope", function()
   it("passes the error that ends its block to its close function", function()
      local seen
      local ok, message = pcall(function()
         local _ <close> = scopes.new(function(fault) seen = fault end)
         error("broken", 0)
      end)
      assert.is_false(ok)
      assert.equal("broken", message)
      assert.equal("broken", seen)
   end)

   it("of several scopes ends the last one first", function()
      local order = {}
      local function numbered(i) return scopes.new(function() order[#order + 1] = i end) end
      do local _ <close> = scopes.all {numbered(1), numbered(2), numbered(3)} end
      assert.same({3, 2, 1}, order)
   end)
end)

describe("scope.with_field", function()
   it("changes a field's value while a function runs", function()
      local t = {mode = "a"}
      local mode, x, y = scopes.with_field(t, "mode", "b", function(...) return t.mode, ... end, 1, 2)
      assert.same({"b", 1, 2, "a"}, {mode, x, y, t.mode})
   end)

   it("puts the field back when the function fails, or its coroutine is closed", function()
      local t = {}
      assert.is_false(pcall(scopes.with_field, t, "mode", "b", error))
      assert.is_nil(t.mode)
      local thread = coroutine.create(function() scopes.with_field(t, "mode", "b", coroutine.yield) end)
      coroutine.resume(thread)
      assert.equal("b", t.mode)
      coroutine.close(thread)
      assert.is_nil(t.mode)
   end)

   it("returns a scope if no function is given", function()
      local t = {mode = "a"}
      do
         local _ <close> = scopes.with_field(t, "mode", "b")
         assert.equal("b", t.mode)
      end
      assert.equal("a", t.mode)
   end)
end)

it("scope.run undoes a change that fails before its end, and raises its error", function()
   local a, b = 1, 1
   local function change()
      a = 2
      error("no more", 0)
   end
   local ok, message = pcall(scopes.run, change, function() a, b = 1, 1 end, print)
   assert.is_false(ok)
   assert.equal("no more", message)
   assert.same({1, 1}, {a, b})
end)

describe("functions that take a function or open a scope", function()
   it("refuse an argument that cannot be called, and change nothing", function()
      local forward_ad, functional = torch.autograd.forward_ad, torch.nn.attention
      assert.raises("forward_ad.dual_level: fn: expected a function or nil, got 3",
         function() forward_ad.dual_level(3) end)
      assert.raises("random.fork_rng: fn: expected a function or nil, got 3",
         function() torch.random.fork_rng({}, 3) end)
      assert.raises("nn.attention.sdpa_kernel: fn: expected a function or nil, got 3",
         function() functional.sdpa_kernel("MATH", 3) end)
      assert.raises("nn.utils.parametrize.cached: fn: expected a function or nil, got 3",
         function() torch.nn.utils.parametrize.cached(3) end)
      assert.raises("make_dual: no level is open", function() forward_ad.make_dual(torch.ones(1), torch.ones(1)) end)
   end)
end)
