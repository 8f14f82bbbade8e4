-- Tests that one call that updates many parameters gives the same result as one call for each parameter.

local device = require "spec.support.device"
local torch = require "tlua"
local problem = require "spec.support.optim"
local sorted = require "spec.support.sorted"
local optim = torch.optim

local float64 <const>, float32 <const> = {dtype = "float64"}, {dtype = "float32"}

-- The optimizers that update all parameters in one call.
local fused = {}
for _, row in ipairs(problem.rows) do
   if row[1] ~= "Adafactor" then fused[#fused + 1] = row end
end

-- The list has each optimizer once, with options that use all parts of its state.
local each = {
   SGD = "{lr = 0.1, momentum = 0.9, dampening = 0.3}", Adam = "{lr = 0.1, amsgrad = true}", AdamW = "{lr = 0.1}",
   NAdam = "{lr = 0.1, weight_decay = 0.3}", RAdam = "{lr = 0.1, betas = {0.7, 0.8}}", Adamax = "{lr = 0.1}",
   Adagrad = "{lr = 0.5, lr_decay = 0.1}", Adadelta = "{lr = 1.0}",
   RMSprop = "{lr = 0.05, centered = true, alpha = 0.8, eps = 0.1, momentum = 0.5}", Rprop = "{lr = 0.1}",
   ASGD = "{lr = 0.1, lambd = 0.1, t0 = 5}", Lion = "{lr = 0.01}",
}

local function same(expected, ...) assert.close(expected, (problem.run(...)), 0) end

describe("a step", function()
   it("takes the learning rate from a tensor, too", function()
      for _, row in ipairs(fused) do
         local lr = problem.options(row[2]).lr or 0.01
         local expected = problem.run(row[1], row[2], float64)
         same(expected, row[1], row[2], float64, {more = {lr = torch.tensor(lr, float64)}})
      end
   end)

   it("is the same with counts of steps on the parameters' device", function()
      for _, row in ipairs(fused) do
         local expected = problem.run(row[1], row[2], float64)
         local more = {capturable = true}
         -- A GPU computes the powers of the betas. Its pow may differ from the CPU's in the last digit.
         local near = device.name == "cuda" and 1e-12 or 0
         assert.close(expected, (problem.run(row[1], row[2], float64, {more = more})), near)
         more.lr = torch.tensor(problem.options(row[2]).lr or 0.01, float64)
         assert.close(expected, (problem.run(row[1], row[2], float64, {more = more})), near)
      end
   end)

   it("clips as clip_grad_norm_ does, and leaves gradients as they are", function()
      for name, text in sorted(each) do
         for _, order in ipairs {2, 1, math.huge, 3, 0} do
            local function after(folded)
               local params = problem.parameters(float32)
               local optimizer = problem.make(name, params, problem.options(text))
               local norms = {}
               for t = 1, 3 do
                  problem.set_gradients(params, t)
                  local options = {max_norm = 0.7, norm_type = order}
                  if folded then
                     local grad
                     for _, p in ipairs(params) do grad = grad or p.grad end
                     local before = grad:tolist()
                     norms[t] = select(2, optimizer:step(options)):item()
                     if order > 0 then assert.same(before, grad:tolist()) end
                  else
                     norms[t] = torch.nn.utils.clip_grad_norm_(params, 0.7, order):item()
                     optimizer:step()
                  end
               end
               return problem.values(params), norms
            end
            local expected, norms = after(false)
            local values, found = after(true)
            assert.close(expected, values, 1e-6) -- one of the two ways rounds a factor one more time
            for t = 1, 3 do assert.close(norms[t], found[t], 1e-6) end
         end
      end
   end)

   it("returns its closure's results, then the norm", function()
      local p = torch.ones(2, {requires_grad = true})
      local sgd = optim.SGD({p}, {lr = 1})
      local seen = {}
      sgd:register_step_post_hook(function(o) seen[#seen + 1] = o end)
      local loss, norm = sgd:step(function()
         sgd:zero_grad()
         local sum = (p * torch.tensor({3.0, 4})):sum()
         sum:backward()
         return sum
      end, {max_norm = 1.0})
      assert.equal(7, loss:item())
      assert.equal(5, norm:item())
      assert.close({0.4, 0.2}, p, 1e-6)
      assert.equal(1, #seen)
      assert.is_nil(sgd.clip)
      sgd:zero_grad()
      assert.equal(0, select(2, sgd:step {max_norm = 1.0}):item())
      assert.raises("optim.Optimizer.step: max_norm is missing; expected a number",
         function() sgd:step {norm_type = 1} end)
      for _, wrong in ipairs {-1, 0 / 0} do
         assert.raises("optim.Optimizer.step: max_norm: expected a number of at least 0, got",
            function() sgd:step {max_norm = wrong} end)
      end
      assert.raises("optim.LBFGS.step: max_norm: not supported; clip",
         function() optim.LBFGS({p}):step(function() return p:sum() end, {max_norm = 1.0}) end)
   end)

   it("takes gradients in any order in memory, with gaps, or all elements one", function()
      for name, text in sorted(each) do
         local expected = problem.run(name, text, float64)
         same(expected, name, text, float64, {change = function(grad)
            return torch.stack({grad, grad}, -1):select(-1, 2)
         end})
         local function first_of_all(copy)
            return function(grad)
               local one = grad:reshape(-1)[1]:expand(grad.shape)
               return copy and one:clone() or one
            end
         end
         local of_ones = problem.run(name, text, float64, {change = first_of_all(true)})
         same(of_ones, name, text, float64, {change = first_of_all(false)})
      end
   end)

   it("steps parameters that have gaps", function()
      for name, text in sorted(each) do
         local function after(p)
            local optimizer = optim[name]({p}, problem.options(text))
            for t = 1, 4 do
               p.grad = problem.gradient(1, {2, 3}, t, float64)
               optimizer:step()
            end
            return p:tolist()
         end
         local plain = problem.parameter(1, {2, 3}, float64)
         local wide = torch.full({2, 7}, 5, float64)
         wide[{{}, {2, 6, 2}}] = plain:detach()
         local view = wide:detach()[{{}, {2, 6, 2}}]:detach():requires_grad_()
         assert.is_false(view:is_contiguous())
         assert.close(after(plain), after(view), 0)
         assert.equal(5, wide[{1, 1}]:item())
         assert.equal(5, wide[{2, 7}]:item())
      end
   end)

   it("takes parameters of several dtypes, empty ones, and more than a call holds", function()
      for name, text in sorted(each) do
         local params, alone = {}, {}
         for i = 1, 130 do
            local place = i % 3 == 0 and float64 or float32
            local size = i % 5 == 0 and {0, 3} or {i % 4 + 1}
            params[i] = problem.parameter(i, size, place)
            alone[i] = problem.parameter(i, size, place)
         end
         local together = optim[name](params, problem.options(text))
         local others = {}
         for i, p in ipairs(alone) do others[i] = optim[name]({p}, problem.options(text)) end
         for t = 1, 3 do
            for i, p in ipairs(params) do
               p.grad = problem.gradient(i, p.shape, t, {dtype = p.dtype})
               alone[i].grad = p.grad
               -- parameter 7 has made one step fewer than the other parameters
               if i == 7 and t == 1 then p.grad, alone[i].grad = nil, nil end
               others[i]:step()
            end
            together:step()
         end
         assert.close(problem.values(alone), problem.values(params), 0)
      end
   end)

   it("gives the same bits for every number of threads", function()
      local threads = torch.get_num_threads()
      for name, text in sorted(each) do
         local found = {}
         for n = 1, 2 do
            torch.set_num_threads(n)
            torch.manual_seed(1)
            local p = torch.randn(100003):requires_grad_()
            local q = torch.randn(37, 1001):t():detach():requires_grad_()
            local optimizer = optim[name]({p, q}, problem.options(text))
            for _ = 1, 3 do
               p.grad, q.grad = torch.randn(100003), torch.randn(1001, 37)
               optimizer:step()
            end
            found[n] = torch.cat {p:detach(), q:detach():reshape(-1)}
         end
         assert.is_true(torch.equal(found[1], found[2]), name)
      end
      torch.set_num_threads(threads)
   end)

   it("steps each element independently of its position", function()
      for name, text in sorted(each) do
         local p = torch.linspace(-2, 2, 1061):requires_grad_()
         local optimizer = optim[name]({p}, problem.options(text))
         local singles = {}
         for _, i in ipairs {1, 16, 17, 1024, 1025, 1056, 1057, 1061} do
            singles[#singles + 1] = p:detach()[{{i, i}}]:clone():requires_grad_()
         end
         local of_singles = optim[name](singles, problem.options(text))
         for t = 1, 3 do
            p.grad = torch.linspace(-1, 3, 1061) * t
            for k, i in ipairs {1, 16, 17, 1024, 1025, 1056, 1057, 1061} do
               singles[k].grad = p.grad[{{i, i}}]:clone()
            end
            optimizer:step()
            of_singles:step()
         end
         for k, i in ipairs {1, 16, 17, 1024, 1025, 1056, 1057, 1061} do
            assert.equal(p[i]:item(), singles[k]:item())
         end
      end
   end)

   it("divides gradients by grad_scale, and changes nothing if found_inf is 1", function()
      for name, text in sorted(each) do
         local expected = problem.run(name, text, float32)
         local params = problem.parameters(float32)
         local optimizer = problem.make(name, params, problem.options(text, {capturable = true}))
         optimizer.grad_scale, optimizer.found_inf = torch.tensor(8.0), torch.tensor(0.0)
         for t = 1, problem.steps do
            problem.step(optimizer, params, t, t, function(grad) return grad * 8 end)
            local before, state = problem.values(params), optimizer:state_dict().state
            for _, of_one in pairs(state) do
               for key, value in pairs(of_one) do of_one[key] = value:clone() end
            end
            optimizer.found_inf:fill_(1)
            optimizer:step()
            optimizer.found_inf:fill_(0)
            assert.close(before, problem.values(params), 0)
            assert.close(state, optimizer:state_dict().state, 0)
         end
         assert.close(expected, problem.values(params), 0)
      end
   end)

   it("multiplies gradients by clip", function()
      local p, grad = torch.tensor({1.0, 2.0}), torch.tensor({4.0, 8.0})
      torch._fused_step_({p}, {grad}, {}, {}, "sgd", {0.5, 0, 0, 0, 0, 0},
         {clip = torch.tensor(0.25), grad_scale = torch.tensor(2.0)})
      assert.close({0.75, 1.5}, p, 0)
      assert.close({4, 8}, grad, 0)
   end)
end)

describe("a step of a half type", function()
   local function parameters(dtype)
      local params = problem.parameters(float32)
      for i, p in ipairs(params) do params[i] = p:detach():to(dtype):requires_grad_() end
      return params
   end

   it("is computed in float32 and rounded", function()
      for _, dtype in ipairs {"float16", "bfloat16"} do
         for name, text in sorted(each) do
            local exact, rounded = problem.parameters(float32), parameters(dtype)
            local a = problem.make(name, exact, problem.options(text))
            local b = problem.make(name, rounded, problem.options(text))
            problem.step(a, exact, 7, 7)
            problem.step(b, rounded, 7, 7)
            for i, p in ipairs(exact) do
               assert.close(p:detach():to(dtype), rounded[i]:detach(), 0)
               for key, value in pairs(a.state[i]) do
                  local own = b.state[i][key]
                  assert.equal(value.dtype == "float32" and dtype or "float64", own.dtype)
                  assert.close(value:to(own.dtype), own, 0)
               end
            end
         end
      end
   end)

   it("with master weights gives the steps of float32", function()
      for _, dtype in ipairs {"float16", "bfloat16"} do
         for name, text in sorted(each) do
            local _, of_exact, exact = problem.run(name, text, float32)
            local rounded = parameters(dtype)
            local optimizer = problem.make(name, rounded, problem.options(text, {master_weights = true}))
            problem.step(optimizer, rounded, 1, problem.steps)
            for i, p in ipairs(exact) do
               assert.close(p:detach():to(dtype), rounded[i]:detach(), 0)
               assert.close(p:detach(), optimizer.state[i].master, 0)
               for key, value in pairs(of_exact.state[i]) do assert.close(value, optimizer.state[i][key], 0) end
            end
         end
      end
   end)
end)

describe("_fused_step_", function()
   -- Returns the arguments of a valid call, after `change` has modified them.
   local function arguments(change)
      local a = {
         params = {torch.zeros(2)}, grads = {torch.zeros(2)}, clocks = {torch.zeros({}, float64)},
         states = {torch.zeros(2), torch.zeros(2)}, rule = "adam", options = {1, 0.9, 0.99, 1e-8, 0, 0}, more = {},
      }
      change(a)
      return a.params, a.grads, a.states, a.clocks, a.rule, a.options, a.more
   end

   it("names the wrong argument before it changes anything", function()
      local wrong = {
         ["rule: there is no 'adamm'"] = function(a) a.rule = "adamm" end,
         ["grads: expected 1 of them, got 2"] = function(a) a.grads[2] = torch.zeros(2) end,
         ["states: expected 2 of them, got 1"] = function(a) a.states[2] = nil end,
         ["clocks: expected 1 of them, got 0"] = function(a) a.clocks = {} end,
         ["options: expected 6 of them, got 5"] = function(a) a.options[6] = nil end,
         ["grads of parameter 1: expected shape [2], got [3]"] = function(a) a.grads[1] = torch.zeros(3) end,
         ["states of parameter 1: expected a floating dtype, got int64"] =
            function(a) a.states[2] = torch.zeros(2, {dtype = "int64"}) end,
         ["clocks of parameter 1: expected a float64 number"] = function(a) a.clocks[1] = torch.zeros({}) end,
         ["masters of parameter 1: expected float32, got float64"] =
            function(a) a.more.masters = {torch.zeros(2, float64)} end,
         ["lr: expected a number in float32 or float64, got int64"] = function(a) a.more.lr = torch.tensor(1) end,
         ["found_inf: expected a number in float32, got float32 [2]"] =
            function(a) a.more.found_inf = torch.zeros(2) end,
      }
      for message, change in pairs(wrong) do
         assert.raises("_fused_step_: " .. message, function() torch._fused_step_(arguments(change)) end)
      end
      local fine, odd = torch.ones(2), torch.ones(3)
      assert.raises("grads of parameter 2",
         function() torch._fused_step_({fine, odd}, {fine:clone(), fine}, {}, {}, "sgd", {1, 0, 0, 0, 0, 0}) end)
      assert.close({1, 1}, fine, 0)
   end)

   it("has the checks and effects of an in-place operator", function()
      local p = torch.zeros(2, {requires_grad = true})
      assert.raises("leaf", function() torch._fused_step_({p}, {torch.ones(2)}, {}, {}, "lerp", {0.5}) end)
      local one = torch.ones(1):expand(3)
      assert.raises("_fused_step_", function() torch._fused_step_({one}, {torch.ones(3)}, {}, {}, "lerp", {0.5}) end)
      local saved = torch.ones(2, {requires_grad = true})
      local weights = torch.ones(2)
      local loss = (saved * weights):sum()
      torch._fused_step_({weights}, {torch.zeros(2)}, {}, {}, "lerp", {0.5})
      assert.raises("changed", function() loss:backward() end)
   end)

   it("uses the parameters' own gradients if none are given", function()
      local p = torch.tensor({1.0, 2.0}, {requires_grad = true})
      p.grad = torch.tensor({4.0, 8.0})
      local _ <close> = torch.no_grad()
      torch._fused_step_({p}, {}, {}, {}, "sgd", {0.25, 0, 0, 0, 0, 0})
      assert.close({0, 0}, p:detach(), 0)
      assert.raises("_fused_step_: grads: parameter 2 has no gradient",
         function() torch._fused_step_({p, torch.zeros(1)}, {}, {}, {}, "sgd", {0.25, 0, 0, 0, 0, 0}) end)
      assert.close({0, 0}, p:detach(), 0)
   end)

   it("with no parameters does nothing", function()
      torch._fused_step_({}, {}, {}, {}, "adam", {1, 0.9, 0.99, 1e-8, 0, 0})
   end)
end)

describe("_total_norm", function()
   it("is the norm of all elements, to the bit the same for every number of threads", function()
      torch.manual_seed(2)
      local list, flat = {}, {}
      for i, n in ipairs {3, 0, 200000, 65536, 65537, 1} do
         list[i] = torch.randn(n)
         flat[i] = list[i]
      end
      list[3] = list[3]:view(400, 500):t()
      list[4] = torch.stack({list[4], list[4]}, 2)[{{}, 1}]
      local all = torch.cat(flat)
      for _, p in ipairs {2, 1, 3, 0.5, math.huge, -math.huge, 0} do
         local expected = all:double():norm(p):item()
         local found = torch._total_norm(list, p)
         assert.equal("float32", found.dtype)
         assert.is_true(math.abs(found:item() - expected) <= 2e-7 * expected)
         local threads = torch.get_num_threads()
         torch.set_num_threads(1)
         assert.equal(found:item(), torch._total_norm(list, p):item())
         torch.set_num_threads(threads)
      end
   end)

   it("takes mixed dtypes, and does not overflow", function()
      local half = torch.full({1000}, 60000, {dtype = "float16"})
      local large = torch.full({4}, 1e30)
      assert.close(60000 * 1000 ^ 0.5, torch._total_norm({half}):item(), 1e-6)
      assert.close(2, torch._total_norm({large}):item() / 1e30, 1e-6)
      assert.equal("float64", torch._total_norm({half, torch.ones(1, float64)}).dtype)
      assert.equal(0, torch._total_norm({}):item())
      assert.is_true(torch._total_norm({torch.ones(3), torch.tensor({0 / 0})}):isnan():item())
      assert.raises("_total_norm: tensors[2]: expected a floating dtype, got int64",
         function() torch._total_norm {torch.ones(1), torch.ones(1, {dtype = "int64"})} end)
   end)
end)

describe("scaling of lists", function()
   it("multiplies tensors of any strides", function()
      local a, b = torch.arange(6.0):view(2, 3), torch.ones(4, 2)
      local gaps = b[{{}, 1}]
      local half, wide = torch.ones(3, {dtype = "bfloat16"}), torch.ones(2, float64) / 3
      torch._foreach_mul_({a:t(), gaps, half, wide}, torch.tensor(0.1, float64))
      assert.close({{0, 0.1, 0.2}, {0.3, 0.4, 0.5}}, a)
      assert.close({{0.1, 1}, {0.1, 1}, {0.1, 1}, {0.1, 1}}, b)
      assert.close(torch.full({3}, 0.1, {dtype = "bfloat16"}), half, 0)
      assert.close({0.1 / 3, 0.1 / 3}, wide, 1e-16)
      assert.raises("_foreach_mul_: scale: expected a number", function() torch._foreach_mul_({a}, torch.ones(2)) end)
   end)

   it("finds values that are not finite", function()
      local unscale = torch._amp_foreach_non_finite_check_and_unscale_
      for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16"} do
         for _, odd in ipairs {math.huge, -math.huge, 0 / 0} do
            local found, list = torch.zeros(1), {}
            for i = 1, 200 do list[i] = torch.ones(i, {dtype = dtype}) end
            unscale(list, found, torch.tensor(0.5))
            assert.equal(0, found:item())
            assert.equal(0.5, list[200][200]:item())
            list[150][33] = odd
            unscale(list, found, torch.tensor(0.5))
            assert.equal(1, found:item())
            list[150][33] = 1
            unscale(list, found, torch.tensor(0.5))
            assert.equal(1, found:item())
         end
      end
      assert.raises("found_inf: expected a float32 number",
         function() unscale({torch.ones(1)}, torch.ones(2), torch.tensor(1.0)) end)
   end)
end)
