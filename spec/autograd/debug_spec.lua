-- Tests the tools that find the source line that first computes NaN or infinity.

local torch = require "tlua"
local nn = torch.nn

describe("anomaly mode", function()
   local function message_of(fn)
      local ok, message = pcall(torch.autograd.detect_anomaly, fn)
      assert.is_false(ok)
      return message
   end

   it("names operator, line and module, and says that NaN begins there", function()
      local Root = torch.class("DebugRoot", nn.Module)
      function Root:forward(x) return x:sqrt() end
      local model = nn.Sequential(nn.Linear(2, 2), Root())
      model[1].weight:detach():zero_()
      model[1].bias:detach():fill_(-1)
      local line = debug.getinfo(Root.forward, "S").linedefined
      local message = message_of(function() model(torch.ones(1, 2)):sum():backward() end)
      assert.matches("sqrt: the gradient of its input 1 has NaN, though what came to it was finite", message)
      assert.matches(("debug_spec.lua:%d %%(in module 2 %%(DebugRoot%%)%%)"):format(line), message)
   end)

   it("names an input that was not finite already, and the derivative that received one", function()
      local x = torch.tensor({0.0, 1}, {requires_grad = true})
      local message = message_of(function() (x:log() * 0):sum():backward() end)
      assert.matches("log: the gradient of its input 1 has NaN", message)
      x = torch.tensor({1.0}, {requires_grad = true})
      message = message_of(function()
         local bad = x * (0 / 0)
         local y = bad * 2
         y:backward()
      end)
      assert.matches("^.*mul: the gradient of its input 1 has NaN, though what came to it was finite", message)
      local z = torch.tensor({-1.0}, {requires_grad = true})
      message = message_of(function() z:sqrt():exp():sqrt():backward() end)
      assert.matches("sqrt: .* where input 1 was not finite already", message)
   end)
end)

describe("check_finite", function()
   it("names the first module whose output is not finite", function()
      local model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
      local handle = torch.utils.check_finite(model)
      model(torch.ones(1, 2))
      model[3].weight:detach()[{1, 2}] = 0 / 0
      local ok, message = pcall(model, torch.ones(1, 2))
      assert.is_false(ok)
      assert.matches("check_finite: 3 %(nn.Linear%): of its result 1, 1 of 1 elements are not finite, "
         .. "1 of them NaN; its inputs are finite", message)
      handle:remove()
      model(torch.ones(1, 2))
   end)

   it("reports non-finite inputs of a module, and the first non-finite gradient", function()
      local model = nn.Linear(2, 1)
      local handle = torch.utils.check_finite(model)
      local ok, message = pcall(model, torch.tensor {{1.0, math.huge}})
      assert.is_false(ok)
      assert.matches("of its input 1, 1 of 2 elements are not finite, 0 of them NaN", message)
      local loss = model(torch.ones(1, 2)):sum()
      ok, message = pcall(loss.backward, loss, torch.tensor(math.huge))
      assert.is_false(ok)
      assert.matches("check_finite: the gradient of %a+: ", message)
      handle:remove()
      assert.raises("model: expected a module, got 3", function() torch.utils.check_finite(3) end)
   end)
end)

it("a graph's picture has a box for each derivative and an ellipse for each leaf, with its path", function()
   local model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
   local dot = torch.autograd.graph.dot(model(torch.ones(4, 2)):sum(), model)
   assert.matches('^digraph {\n.*}\n$', dot)
   assert.matches('label="SumBackward0\\n%(%)"', dot)
   assert.matches('label="TanhBackward0\\n%(4, 3%)"', dot)
   assert.matches('shape=ellipse.*label="1.weight\\n%(3, 2%)"', dot)
   assert.matches('label="1.bias\\n%(3%)"', dot)
   local boxes, edges = select(2, dot:gsub("shape=box", "")), select(2, dot:gsub("%->", ""))
   assert.equal(3, boxes)
   assert.equal(4, edges)
   assert.raises("nothing was recorded", function() torch.autograd.graph.dot(torch.ones(1)) end)
end)

describe("register_post_accumulate_grad_hook", function()
   it("runs when the gradient has been added, with the leaf", function()
      local w = torch.tensor({1.0, 2}, {requires_grad = true})
      local seen = {}
      local handle = w:register_post_accumulate_grad_hook(function(leaf)
         assert.is_true(leaf == w)
         seen[#seen + 1] = leaf.grad:tolist()
      end)
      torch.sum(w * 3):backward()
      torch.sum(w * 2):backward()
      assert.same({{3, 3}, {5, 5}}, seen)
      handle:remove()
      w:sum():backward()
      assert.equal(2, #seen)
   end)

   it("can step an optimizer within the backward pass", function()
      local w = torch.tensor({4.0}, {requires_grad = true})
      local sgd = torch.optim.SGD({w}, {lr = 0.5})
      w:register_post_accumulate_grad_hook(function()
         sgd:step()
         sgd:zero_grad()
      end)
      torch.sum(w * w):backward()
      assert.close({0.0}, w:detach())
      assert.is_nil(w.grad)
   end)

   it("applies to leaves only, and passes errors on", function()
      local w = torch.tensor({4.0}, {requires_grad = true})
      assert.raises("expected a leaf that requires a gradient",
         function() (w * 2):register_post_accumulate_grad_hook(print) end)
      assert.raises("hook: expected a function, got 3", function() w:register_post_accumulate_grad_hook(3) end)
      w:register_post_accumulate_grad_hook(function() error "mine" end)
      local ok, message = pcall(function() w:sum():backward() end)
      assert.is_false(ok)
      assert.matches("mine", tostring(message))
   end)
end)

describe("set_printoptions", function()
   after_each(function() torch.set_printoptions {profile = "default"} end)

   it("accepts PyTorch's profiles", function()
      torch.set_printoptions {profile = "short"}
      assert.equal("tensor([0.33])", tostring(torch.tensor({1 / 3}, {device = "cpu"})))
      torch.set_printoptions {profile = "full"}
      assert.is_nil(tostring(torch.zeros(2000)):find "%.%.%.")
      torch.set_printoptions {profile = "default", precision = 6}
      assert.equal("tensor([0.333333])", tostring(torch.tensor({1 / 3}, {device = "cpu"})))
      assert.equal(6, torch.get_printoptions().precision)
      assert.equal(1000, torch.get_printoptions().threshold)
   end)

   it("refuses unknown options", function()
      assert.raises("unknown option precison", function() torch.set_printoptions {precison = 3} end)
      assert.raises('profile: expected "default", "short" or "full", got string',
         function() torch.set_printoptions {profile = "long"} end)
   end)
end)

describe("set_deterministic_debug_mode", function()
   it("accepts names and numbers", function()
      torch.set_deterministic_debug_mode "error"
      assert.equal(2, torch.get_deterministic_debug_mode())
      torch.set_deterministic_debug_mode(0)
      assert.equal(0, torch.get_deterministic_debug_mode())
      assert.raises('expected "default", "warn" or "error"', function() torch.set_deterministic_debug_mode "loud" end)
   end)

   -- The fill values are those that https://docs.pytorch.org/docs/stable/deterministic.html specifies.
   it("fills undefined memory, unless that is turned off", function()
      local settings = torch.utils.deterministic
      torch.use_deterministic_algorithms(true)
      for _, t in ipairs {torch.empty(3, 2), torch.empty_like(torch.zeros(6)),
                          torch.zeros(2):new_empty(6), torch.empty(6, {dtype = "float16"})} do
         assert.equal(6, t:isnan():sum():item())
      end
      assert.same({2 ^ 31 - 1, 2 ^ 31 - 1}, torch.empty(2, {dtype = "int32"}):tolist())
      assert.same({255}, torch.empty(1, {dtype = "uint8"}):tolist())
      assert.same({true}, torch.empty(1, {dtype = "bool"}):tolist())
      local grown = torch.tensor({1, 2}, {dtype = "int8"}):resize_(4)
      assert.same({1, 2, 127, 127}, grown:tolist())
      assert.is_true(settings.fill_uninitialized_memory)
      settings.fill_uninitialized_memory = false
      assert.has_no.errors(function() torch.empty(3) end)
      settings.fill_uninitialized_memory = true
      torch.use_deterministic_algorithms(false)
      assert.raises("expected true or false, got 3", function() settings.fill_uninitialized_memory = 3 end)
      assert.raises('no setting "fill"', function() settings.fill = true end)
   end)
end)
