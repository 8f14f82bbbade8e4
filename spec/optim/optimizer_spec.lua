local torch = require "tlua"
local problem = require "spec.support.optim"
local optim = torch.optim

local function parameter(value) return torch.tensor({value}, {dtype = "float64"}):requires_grad_() end

-- Makes one optimizer step to minimise x^2.
local function descend(optimizer, ...)
   optimizer:zero_grad()
   for _, p in ipairs {...} do (p * p):sum():backward() end
   optimizer:step()
end

it("optimizers refuse masked and quantized tensors", function()
   for title, x in pairs {masked = torch.masked.masked_tensor(torch.ones(2), torch.tensor {true, false}),
      quantized = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, "qint8")} do
      assert.raises("optim.SGD: parameter 1: expected a dense or sparse tensor, got a",
         function() optim.SGD {x} end)
      assert.raises(title .. " tensor of shape (2)", function() optim.SGD {x} end)
      assert.raises("func.grad: argument: expected", function() torch.func.grad(torch.sum)(x) end)
   end
   rawset(string, "title", string.upper) -- some libraries, such as Penlight's stringx.import(), add methods to strings
   assert.truthy(optim.SGD {torch.ones(2):requires_grad_()})
   rawset(string, "title", nil)
end)

it("optimizers check the arguments of zero_grad only if there are any", function()
   local w = torch.ones(2):requires_grad_()
   local optimizer = torch.optim.SGD({w}, {lr = 0.1})
   local function instructions(...)
      local count = 0
      w:sum():backward()
      debug.sethook(function() count = count + 1 end, "", 1)
      optimizer:zero_grad(...)
      debug.sethook()
      return count
   end
   instructions()
   assert.is_true(instructions() <= 60, "one parameter took more than 60 instructions")
   assert.is_nil(w.grad)
   instructions {set_to_none = false}
   assert.same({0, 0}, w.grad:tolist())
   assert.error_matches(function() optimizer:zero_grad(1) end, "optim.Optimizer.zero_grad: set_to_none: expected a "
      .. "boolean, got 1")
end)

describe("optim.SparseAdam", function()
   local F = torch.nn.functional

   local function train(optimizer, w, ...)
      for _, rows in ipairs {...} do
         optimizer:zero_grad()
         local loss = F.embedding(torch.tensor(rows), w, {sparse = true}) ^ 2
         loss = loss * torch.tensor({1.0, 2, 3}, {dtype = "float64"})
         loss:sum():backward()
         optimizer:step()
      end
   end

   it("updates only rows with a gradient, as PyTorch's does with sparse gradients", function()
      local w = (torch.arange(0, 12):double():view(4, 3) / 10):requires_grad_()
      train(optim.SparseAdam({w}, {lr = 0.1}), w, {1, 3}, {3, 4}, {1, 3})
      assert.close({{0.0, -0.05752191810887707, 0.019975910394579285}, {0.3, 0.4, 0.5},
         {0.3035416880350069, 0.4027435064301783, 0.5022200811417594},
         {0.8255863307164509, 0.9255863235262195, 1.0255863212087066}}, w, 1e-12)
   end)

   it("goes on from a saved state, and leaves rows alone that no gradient reaches", function()
      local w = (torch.arange(0, 12):double():view(4, 3) / 10):requires_grad_()
      local other = w:detach():clone():requires_grad_()
      local first = optim.SparseAdam({w}, {lr = 0.1})
      train(first, w, {1, 3}, {3, 4})
      local second = optim.SparseAdam({other}, {lr = 0.1})
      torch.no_grad(function() other:copy_(w) end)
      second:load_state_dict(first:state_dict())
      train(first, w, {1, 3})
      train(second, other, {1, 3})
      assert.close(w, other, 0)
      assert.close({0.3, 0.4, 0.5}, w[2], 0)
   end)

   it("refuses options and parameters that make no sense", function()
      local w = torch.ones(2, 2):requires_grad_()
      assert.raises("betas", function() optim.SparseAdam({w}, {betas = {1, 0.9}}) end)
      assert.raises("betas", function() optim.SparseAdam({w}, {betas = {0.9, 0 / 0}}) end)
      assert.raises("lr", function() optim.SparseAdam({w}, {lr = -1}) end)
      assert.raises("expected a tensor with rows, got a 0-d one",
         function() optim.SparseAdam {torch.tensor(1.0):requires_grad_()} end)
   end)
end)

it("optim.swap_in_optimizer_params_and_state steps other parameters by another state until the scope ends", function()
   local a, b = parameter(1), parameter(5)
   local adam = optim.Adam({a}, {lr = 0.1})
   descend(adam, a)
   local kept, state = a:item(), adam:state_dict()
   local steps = adam.state[1].step
   local saved = state.state[1].exp_avg:clone()
   state.state[1].exp_avg, state.param_groups[1].lr = saved, 0.5
   do
      local _ <close> = optim.swap_in_optimizer_params_and_state(adam, {b}, state)
      b.grad = torch.tensor({2}, {dtype = "float64"})
      adam:step()
      assert.is_true(b:item() < 4.9)
   end
   assert.equal(kept, a:item())
   assert.equal(0.1, adam.param_groups[1].lr)
   assert.is_true(rawequal(a, adam.param_groups[1].params[1]))
   assert.is_true(rawequal(steps, adam.state[1].step))
   assert.raises("parameter 1: expected a tensor of shape (1)",
      function() optim.swap_in_optimizer_params_and_state(adam, {torch.ones(2)}, state) end)
   assert.raises("state: expected a result of state_dict",
      function() optim.swap_in_optimizer_params_and_state(adam, {b}, {}) end)
end)

describe("optim.Optimizer", function()
   it("takes parameters, named parameters and groups", function()
      local a, b = parameter(1), parameter(2)
      assert.equal(2, #optim.SGD({a, b}).param_groups[1].params)
      assert.equal(2, #optim.SGD({{"a", a}, {"b", b}}).param_groups[1].params)
      local groups = optim.SGD({{params = {a}, lr = 5}, {params = b}}, {lr = 7}).param_groups
      assert.same({5, 7}, {groups[1].lr, groups[2].lr})
   end)

   it("names the wrong argument in its errors", function()
      local a = parameter(1)
      assert.raises("unknown option learning_rate", function() optim.SGD({a}, {learning_rate = 1}) end)
      assert.raises("optim.Adam: unknown option bettas; did you mean betas?",
         function() optim.Adam({a}, {bettas = {0, 0}}) end)
      assert.raises("optim.Adam: betas: expected a table, got 0.9", function() optim.Adam({a}, {betas = 0.9}) end)
      assert.raises("optim.SGD: lr: expected a number of at least 0, got -1",
         function() optim.SGD({a}, {lr = -1}) end)
      assert.raises("at least one parameter, got an empty list", function() optim.SGD({}) end)
      assert.raises("parameter 1: expected a tensor, got 3", function() optim.SGD({3}) end)
      assert.raises("optim.SGD: params: expected a list of tensors",
         "got an instance of nn.Linear", function() optim.SGD(torch.nn.Linear(1, 1)) end)
      assert.raises("expected a leaf", function() optim.SGD({a * 2}) end)
      assert.raises("optim.Adafactor: parameter 1: expected a real tensor, got complex64",
         function() optim.Adafactor({torch.zeros(2, {dtype = "complex64", device = "cpu"}):requires_grad_()}) end)
      assert.raises("in a group already", function() optim.SGD({a, a}) end)
      assert.raises("optim.SGD: nesterov", function() optim.SGD({a}, {nesterov = true}) end)
   end)

   it("leaves parameters without gradients", function()
      local a, b = parameter(1), parameter(2)
      local optimizer = optim.Adam({a, b}, {lr = 0.1})
      descend(optimizer, a)
      assert.is_true(a:item() < 1)
      assert.equal(2, b:item())
      assert.is_nil(optimizer.state[2])
   end)

   it("drops gradients, or zeroes them", function()
      local a = parameter(1)
      local optimizer = optim.SGD({a})
      local squared = a * a
      squared:backward()
      optimizer:zero_grad({set_to_none = false})
      assert.equal(0, a.grad:item())
      optimizer:zero_grad()
      assert.is_nil(a.grad)
   end)

   it("refuses a loss in the place of a closure", function()
      local sgd = optim.SGD({parameter(1)}, {lr = 0.1})
      assert.raises("optim.SGD.step: closure: expected a function, got a float32 tensor",
         function() sgd:step(torch.tensor(1.0)) end)
   end)

   it("gives the closure's loss, which may record", function()
      local a = parameter(3)
      local optimizer = optim.SGD({a}, {lr = 0.5})
      local loss = torch.no_grad(function()
         return optimizer:step(function()
            local loss = (a * a):sum()
            loss:backward()
            return loss
         end)
      end)
      assert.equal(9, loss:item())
      assert.equal(0, a:item())
   end)

   it("takes further groups", function()
      local a, b = parameter(1), parameter(1)
      local optimizer = optim.SGD({a}, {lr = 0.1})
      optimizer:add_param_group({params = {b}, lr = 0.25})
      descend(optimizer, a, b)
      assert.close({0.8, 0.5}, {a:item(), b:item()})
      assert.raises("in a group already", function() optimizer:add_param_group({params = {a}}) end)
   end)

   it("continues from a saved state as if nothing had happened", function()
      local seen = {}
      for _, row in ipairs(problem.rows) do
         local name, text = row[1], row[2]
         local more = name ~= "Adafactor" and #text % 2 == 0 and {capturable = true} or nil
         local params = problem.parameters({})
         local first = problem.make(name, params, problem.options(text, more))
         problem.step(first, params, 1, 8)
         local copies = {}
         for i, p in ipairs(params) do copies[i] = p:detach():clone():requires_grad_() end
         local second = problem.make(name, copies, {lr = 9.0})
         local path = os.tmpname()
         torch.save(first:state_dict(), path)
         second:load_state_dict(torch.load(path))
         os.remove(path)
         problem.step(first, params, 9, 20)
         problem.step(second, copies, 9, 20)
         assert.close(problem.values(params), problem.values(copies), 0)
         seen[name] = true
      end
      for _, name in ipairs {"SGD", "Adafactor", "Lion", "ASGD"} do assert.is_true(seen[name]) end
   end)

   it("has a state of plain data that shares nothing with another optimizer", function()
      local a = parameter(1)
      local first = optim.Adam({a}, {lr = 0.1})
      descend(first, a)
      local state = first:state_dict()
      assert.same({1}, state.param_groups[1].params)
      assert.equal(1, state.state[1].step:item())
      local second = optim.Adam({parameter(1)})
      second:load_state_dict(state)
      assert.is_false(second.state[1].exp_avg == first.state[1].exp_avg)
      assert.raises("expected 1 parameters, got 2",
         function() second:load_state_dict({state = {}, param_groups = {{params = {1, 2}}}}) end)
      assert.raises("expected 1 groups, got 0",
         function() second:load_state_dict({state = {}, param_groups = {}}) end)
   end)

   it("loads nothing from a saved state that does not fit", function()
      local a = parameter(1)
      local optimizer = optim.Adam({a}, {lr = 0.1})
      descend(optimizer, a)
      local before = optimizer:state_dict()
      local function with(change)
         local dict = optimizer:state_dict()
         change(dict.param_groups[1], dict)
         return dict
      end
      local wrong = {
         ["group 1: lr: expected a number or a tensor with one, got \"fast\""] = function(g) g.lr = "fast" end,
         ["lr: expected a number of at least 0, got -1"] = function(g) g.lr = -1 end,
         ["group 1: betas: expected a table, got 3"] = function(g) g.betas = 3 end,
         ["betas: expected two numbers from 0"] = function(g) g.betas = {0.5} end,
         ["group 1: expected 1 parameters, got 0"] = function(g) g.params = {} end,
         ["state: expected a result of state_dict"] = function(_, dict) dict.state = nil end,
      }
      for message, change in pairs(wrong) do
         local dict = with(change)
         dict.param_groups[1].eps = 7
         assert.raises(message, function() optimizer:load_state_dict(dict) end)
         assert.close(before.state, optimizer.state, 0)
         assert.equal(1e-8, optimizer.param_groups[1].eps)
      end
   end)

   it("refuses an invalid state of a parameter", function()
      local p = parameter(1)
      local adam = optim.Adam({p}, {lr = 0.1})
      p.grad = torch.ones_like(p)
      adam:step()
      local before = adam:state_dict().state[1]
      local function refuse(message, change)
         local dict = adam:state_dict()
         change(dict.state)
         assert.raises("optim.Adam.load_state_dict: state" .. message, function() adam:load_state_dict(dict) end)
         assert.is_true(torch.equal(before.exp_avg, adam:state_dict().state[1].exp_avg))
      end
      refuse(" of parameter 1: expected a table, got 3", function(s) s[1] = 3 end)
      refuse(": step: expected a number of at least 0, got -5", function(s) s[1].step = -5 end)
      refuse(": step: expected a number of at least 0, got \"x\"", function(s) s[1].step = "x" end)
      refuse(" of parameter 1: exp_avg: expected a tensor, got one that was released", function(s)
         s[1].exp_avg = torch.ones(1)
         s[1].exp_avg:release()
      end)
      refuse(" of parameter 1: exp_avg_sq: expected a tensor of shape (1), got nil",
         function(s) s[1].exp_avg_sq = nil end)
      refuse(" of parameter 1: exp_avg_sq: expected a tensor of shape (1), got a float32 tensor of shape (2)",
         function(s) s[1].exp_avg_sq = torch.ones(2) end)
      refuse(" of parameter 1: step: expected a number of at least 0, got nil",
         function(s) s[1] = {exp_avg = before.exp_avg} end)
      refuse(" of parameter 1: max_exp_avg_sq: expected a tensor of shape (1), got a float32 tensor of shape (2)",
         function(s) s[1].max_exp_avg_sq = torch.ones(2) end)
      for _, name in ipairs {"SGD", "Adafactor"} do
         local own = optim[name]({p}, {lr = 0.1, momentum = name == "SGD" and 0.9 or nil})
         own:step()
         local dict = own:state_dict()
         local key = name == "SGD" and "momentum_buffer" or "step"
         dict.state[1][key] = name == "SGD" and "x" or nil
         assert.raises(("optim.%s.load_state_dict: state of parameter 1: %s: expected"):format(name, key),
            function() own:load_state_dict(dict) end)
      end
   end)

   it("loads a state without parts that later options add, and an empty one", function()
      local a, b = parameter(1), parameter(1)
      local first, second = optim.Adam({a}), optim.SGD({b}, {lr = 1})
      descend(first, a)
      descend(second, b)
      first.param_groups[1].amsgrad = true
      second.param_groups[1].momentum = 0.5
      first:load_state_dict(first:state_dict())
      second:load_state_dict(second:state_dict())
      local dict = first:state_dict()
      dict.state[1] = {}
      first:load_state_dict(dict)
      descend(first, a)
      assert.equal(1, first.state[1].step:item())
      descend(second, b)
      assert.equal(1, second.state[1].momentum_buffer:numel())
   end)

   it("loads counts of steps as numbers or in other dtypes", function()
      local a, b, c = parameter(1), parameter(1), parameter(1)
      local first = optim.Adam({a}, {lr = 0.1})
      descend(first, a)
      local optimizers = {[b] = optim.Adam({b}), [c] = optim.Adam({c})}
      for p, optimizer in pairs(optimizers) do
         p:detach():copy_(a)
         local dict = first:state_dict()
         dict.state[1].step = p == b and 1 or torch.tensor({1.0})
         optimizer:load_state_dict(dict)
         descend(optimizer, p)
      end
      descend(first, a)
      assert.equal(a:item(), b:item())
      assert.equal(a:item(), c:item())
   end)

   it("keeps the names of parameters", function()
      local a, b = parameter(1), parameter(2)
      local optimizer = optim.SGD({{"a", a}, {"b", b}})
      assert.same({"a", "b"}, optimizer.param_groups[1].param_names)
      assert.same({"a", "b"}, optimizer:state_dict().param_groups[1].param_names)
      optimizer:add_param_group({params = {{"c", parameter(3)}}})
      assert.same({"c"}, optimizer.param_groups[2].param_names)
      assert.raises("parameter 2: expected all parameters with names or none",
         function() optim.SGD({{"a", a}, b}) end)
   end)

   it("adds a group whole or not at all", function()
      local optimizer = optim.SGD({parameter(1)}, {lr = 0.1})
      local wrong = {
         ["group: expected a table with the field params"] = {lr = 1},
         ["unknown option momentun; did you mean momentum?"] = {params = {parameter(2)}, momentun = 1},
         ["parameter 2: expected a tensor, got \"x\""] = {params = {parameter(2), "x"}},
         ["weight_decay: expected a number of at least 0"] = {params = {parameter(2)}, weight_decay = -1},
         ["lr: expected a number or a tensor with one, got true"] = {params = {parameter(2)}, lr = true},
      }
      for message, group in pairs(wrong) do
         assert.raises(message, function() optimizer:add_param_group(group) end)
      end
      assert.equal(1, #optimizer.param_groups)
      local p = parameter(3)
      local given = {params = {p}, lr = 0.5, initial_lr = 2}
      assert.equal(optimizer, optimizer:add_param_group(given))
      assert.equal(2, optimizer.param_groups[2].initial_lr)
      assert.same({"initial_lr", "lr", "params"}, (function()
         local keys = {}
         for key in pairs(given) do keys[#keys + 1] = key end
         table.sort(keys)
         return keys
      end)())
   end)

   it("refuses invalid options, and names the nearest valid one", function()
      local a = parameter(1)
      local matrix = torch.zeros(2, 2):requires_grad_()
      local wrong = {
         {"Adam", {beta = {0.9, 0.99}}, "unknown option beta; did you mean betas?"},
         {"Adam", {betas = {0.9, 1}}, "betas: expected two numbers from 0 to below 1"},
         {"Adam", {eps = 0 / 0}, "eps: expected a number of at least 0"},
         {"Adam", {amsgrad = 1}, "amsgrad: expected a boolean, got 1"},
         {"Adam", {lr = torch.ones(2)}, "lr: expected a number or a tensor with one"},
         {"Adam", {lr = torch.tensor(-1.0)}, "lr: expected a number of at least 0, got -1"},
         {"AdamW", {decoupled_weight_decy = true}, "did you mean decoupled_weight_decay?"},
         {"NAdam", {momentum_decay = -1}, "momentum_decay: expected a number of at least 0"},
         {"Rprop", {etas = {0.5, 0.9}}, "etas: expected a number between 0 and 1 and one above 1"},
         {"Rprop", {step_sizes = {2, 1}}, "step_sizes: expected two numbers"},
         {"ASGD", {lambda = 1}, "unknown option lambda; did you mean lambd?"},
         {"Lion", {betas = {2, 3}}, "betas: expected two numbers from 0 to below 1"},
         {"Adadelta", {rho = 1.5}, "rho: expected a number from 0 to 1, got 1.5"},
         {"Adafactor", {d = 0.5}, "d: expected a number of at least 1"},
         {"Adafactor", {eps = {-1, 1}}, "eps: expected two numbers of at least 0"},
         {"Adafactor", {beta2_decay = 1}, "beta2_decay: expected a number of at most 0"},
         {"LBFGS", {line_search_fn = "wolfe"}, "line_search_fn: expected none or strong_wolfe"},
         {"LBFGS", {history_size = -1}, "history_size: expected a number of at least 0"},
         {"Muon", {}, "parameter 1: expected a matrix, got a tensor of shape (1)"},
      }
      for _, row in ipairs(wrong) do
         assert.raises("optim." .. row[1], row[3], function() optim[row[1]]({a}, row[2]) end)
      end
      assert.raises("adjust_lr_fn: expected original, match_rms_adamw or spectral",
         function() optim.Muon({matrix}, {adjust_lr_fn = "square"}) end)
      assert.raises("ns_steps: expected an integer from 0 to 99",
         function() optim.Muon({matrix}, {ns_steps = 100}) end)
   end)

   it("ignores empty parameters", function()
      for _, name in ipairs {"SGD", "Adam", "Adafactor", "Muon", "Rprop"} do
         local empty = torch.zeros(0, 3):requires_grad_()
         local full = torch.ones(2, 2):requires_grad_()
         local optimizer = optim[name]({empty, full}, {lr = 0.5})
         empty.grad, full.grad = torch.zeros(0, 3), torch.ones(2, 2)
         optimizer:step()
         assert.is_false(torch.equal(full, torch.ones(2, 2)))
      end
   end)

   it("calls the hooks of its steps, and those of all optimizers", function()
      local a, log = parameter(1), {}
      local optimizer = optim.SGD({a}, {lr = 0.5})
      local function note(text) return function() log[#log + 1] = text end end
      local handles = {
         optim.register_optimizer_step_pre_hook(note "all before"),
         optim.register_optimizer_step_post_hook(note "all after"),
         optimizer:register_step_pre_hook(note "before"),
         optimizer:register_step_post_hook(note "after"),
      }
      optimizer:step(function() log[#log + 1] = "closure" end)
      assert.same({"all before", "before", "closure", "after", "all after"}, log)
      handles[3]:remove()
      log = {}
      optimizer:step()
      assert.same({"all before", "after", "all after"}, log)
      for _, handle in ipairs(handles) do handle:remove() end
      log = {}
      optimizer:step()
      assert.same({}, log)
      local handle = optimizer:register_step_pre_hook(function(given, closure)
         assert.equal(optimizer, given)
         return function() return closure() + 1 end
      end)
      assert.equal(4, optimizer:step(function() return 3 end))
      handle:remove()
      assert.raises("register_step_pre_hook: hook: expected a function, got 3",
         function() optimizer:register_step_pre_hook(3) end)
      local searching = optim.LBFGS({a})
      local called = 0
      searching:register_step_post_hook(function() called = called + 1 end)
      searching:step(function()
         searching:zero_grad()
         local loss = (a * a):sum()
         loss:backward()
         return loss
      end)
      assert.equal(1, called)
   end)

   it("calls hooks of its state", function()
      local a = parameter(1)
      local optimizer = optim.SGD({a}, {lr = 0.5})
      local log = {}
      local function note(text) return function() log[#log + 1] = text end end
      optimizer:register_state_dict_pre_hook(note "pre")
      optimizer:register_state_dict_pre_hook(note "first", {prepend = true})
      optimizer:register_state_dict_post_hook(function(_, dict)
         dict.note = "mine"
         log[#log + 1] = "post"
      end)
      local replaced = optimizer:register_state_dict_post_hook(function(_, dict) return {inner = dict} end)
      assert.equal("mine", optimizer:state_dict().inner.note)
      assert.same({"first", "pre", "post"}, log)
      replaced:remove()
      optimizer:register_load_state_dict_pre_hook(function(_, dict) return dict.inner end)
      optimizer:register_load_state_dict_post_hook(function(o) o.loaded = true end)
      local dict = optimizer:state_dict()
      dict.param_groups[1].lr = 0.25
      optimizer:load_state_dict({inner = dict})
      assert.equal(0.25, optimizer.param_groups[1].lr)
      assert.is_true(optimizer.loaded)
   end)

   it("writes a loaded learning rate into its existing tensor", function()
      local a, lr = parameter(1), torch.tensor(0.5)
      local optimizer = optim.SGD({a}, {lr = lr})
      local dict = optimizer:state_dict()
      assert.equal(lr, dict.param_groups[1].lr)
      dict.param_groups[1].lr = torch.tensor(0.25)
      optimizer:load_state_dict(dict)
      assert.equal(lr, optimizer.param_groups[1].lr)
      assert.equal(0.25, lr:item())
      dict.param_groups[1].lr = 0.125
      optimizer:load_state_dict(dict)
      assert.equal(0.125, lr:item())
   end)

   it("is printed with its options", function()
      local text = tostring(optim.SGD({parameter(1)}, {lr = 0.5}))
      assert.matches("SGD %(", text)
      assert.matches("group 1: 1 parameters", text)
      assert.matches("lr: 0.5", text)
   end)

   it("may be derived from", function()
      local Sign = torch.class("Sign", optim.Optimizer)
      function Sign:__init(params, options) optim.Optimizer.__init(self, params, options, {lr = 1}) end
      function Sign:update(p, grad, _, group) p:add_(grad:sign(), {alpha = -group.lr}) end
      local a = parameter(5)
      descend(Sign({a}, {lr = 2}), a)
      assert.equal(3, a:item())
   end)
end)

describe("options that choose how PyTorch computes a step", function()
   local function weight() return torch.nn.Parameter(torch.ones(2)) end

   it("are taken and change nothing", function()
      for _, name in ipairs {"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"} do
         local a, b = weight(), weight()
         local plain = torch.optim[name]({a}, {lr = 0.1})
         local chosen = torch.optim[name]({b}, {lr = 0.1, fused = true, differentiable = false})
         for _, p in ipairs {a, b} do p.grad = torch.tensor {0.5, -2.0} end
         plain:step()
         chosen:step()
         assert.is_true(torch.equal(a:detach(), b:detach()), name)
         assert.same(plain:state_dict().param_groups, chosen:state_dict().param_groups)
      end
      torch.optim.Adam({{params = {weight()}, foreach = true}}, {fused = false, capturable = true})
   end)

   it("are those of PyTorch for each optimizer: Adafactor has foreach alone, Muon none", function()
      torch.optim.Adafactor({weight()}, {foreach = true})
      for _, row in ipairs {{"Adafactor", "fused"}, {"Muon", "foreach"}, {"SparseAdam", "foreach"}} do
         local name, option = table.unpack(row)
         assert.raises("optim." .. name .. ": unknown option " .. option, "there are",
            function() torch.optim[name]({torch.zeros(2, 2)}, {[option] = true}) end)
      end
   end)

   it("are refused where they are wrong, or ask for more", function()
      local function adam(options) return function() torch.optim.Adam({weight()}, options) end end
      assert.raises("optim.Adam: fused: expected a boolean, got 1", adam {fused = 1})
      assert.raises("optim.Adam: expected foreach or fused, got both", adam {fused = true, foreach = true})
      assert.raises("optim.Adam: differentiable: expected false, since steps are not recorded",
         adam {differentiable = true})
      assert.raises("optim.Adam: unknown option fusd; did you mean fused?; there are amsgrad,", adam {fusd = true})
      assert.raises("optim.LBFGS: unknown option fused", function() torch.optim.LBFGS({weight()}, {fused = true}) end)
   end)
end)

it("a step refuses a learning rate that was set to nil or to a string", function()
   for _, name in ipairs {"SGD", "Adam", "RMSprop", "SparseAdam", "Adafactor", "Muon", "LBFGS"} do
      local w = torch.ones(2, 1, {requires_grad = true})
      local optimizer = optim[name]({w}, {lr = 0.5})
      w:sum():backward()
      if name == "SparseAdam" then w.grad = w.grad:to_sparse(1) end
      for got, lr in pairs {["nil"] = false, ['"0.5"'] = "0.5"} do
         optimizer.param_groups[1].lr = lr or nil
         assert.raises(("optim.%s.step: lr: expected a number or a tensor, got %s"):format(name, got),
            function() optimizer:step(function() return w:sum() end) end)
         assert.close({{1}, {1}}, w:detach(), 0)
      end
   end
end)

describe("optim.LBFGS", function()
   it("finds the minimum of Rosenbrock's function", function()
      local x = torch.tensor({-1.2, 1.0}, {dtype = "float64"}):requires_grad_()
      local optimizer = optim.LBFGS({x}, {line_search_fn = "strong_wolfe", max_iter = 50})
      for _ = 1, 2 do
         optimizer:step(function()
            optimizer:zero_grad()
            local a, b = x[1], x[2]
            local loss = (1 - a) ^ 2 + 100 * (b - a * a) ^ 2
            loss:backward()
            return loss
         end)
      end
      assert.close({1, 1}, x:tolist(), 1e-4)
   end)

   it("needs a closure", function()
      assert.raises("closure: expected a function", function() optim.LBFGS({parameter(1)}):step() end)
      assert.raises("optim.LBFGS.step: the closure's result: expected a number or a tensor of one, got nil",
         function() optim.LBFGS({parameter(1)}):step(function() end) end)
   end)
end)
