local torch = require "tlua"
local optim = torch.optim

local function parameter(value)
   return torch.tensor({value}, {dtype = "float64"}):requires_grad_()
end

-- One step down x^2.
local function descend(optimizer, ...)
   optimizer:zero_grad()
   for _, p in ipairs {...} do (p * p):sum():backward() end
   optimizer:step()
end

describe("optim.Optimizer", function()
   it("takes parameters, named parameters and groups", function()
      local a, b = parameter(1), parameter(2)
      assert.equal(2, #optim.SGD({a, b}).param_groups[1].params)
      assert.equal(2, #optim.SGD({{"a", a}, {"b", b}}).param_groups[1].params)
      local groups = optim.SGD({{params = {a}, lr = 5}, {params = b}}, {lr = 7}).param_groups
      assert.same({5, 7}, {groups[1].lr, groups[2].lr})
   end)

   it("says what is wrong with its arguments", function()
      local a = parameter(1)
      assert.raises("unknown option learning_rate", function()
         optim.SGD({a}, {learning_rate = 1})
      end)
      assert.raises("optim.Adam: unknown option bettas; did you mean betas?", function()
         optim.Adam({a}, {bettas = {0, 0}})
      end)
      assert.raises("optim.Adam: betas: expected a table, got 0.9", function()
         optim.Adam({a}, {betas = 0.9})
      end)
      assert.raises("optim.SGD: lr: expected a number of at least 0, got -1", function()
         optim.SGD({a}, {lr = -1})
      end)
      assert.raises("at least one parameter, got an empty list", function() optim.SGD({}) end)
      assert.raises("parameter 1: expected a tensor, got 3", function() optim.SGD({3}) end)
      assert.raises("optim.SGD: params: expected a list of tensors",
         "got an instance of nn.Linear", function() optim.SGD(torch.nn.Linear(1, 1)) end)
      assert.raises("expected a leaf", function() optim.SGD({a * 2}) end)
      assert.raises("there already", function() optim.SGD({a, a}) end)
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
      assert.raises("there already", function() optimizer:add_param_group({params = {a}}) end)
   end)

   it("continues from a saved state as if nothing had happened", function()
      for _, name in ipairs {"SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "Adamax",
         "NAdam", "RAdam"} do
         local options = name == "SGD" and {lr = 0.1, momentum = 0.9} or {lr = 0.1}
         local a, b = parameter(1), parameter(-2)
         local first = optim[name]({a, b}, options)
         for _ = 1, 3 do descend(first, a, b) end
         local c, d = parameter(a:item()), parameter(b:item())
         local second = optim[name]({c, d}, {lr = 9})
         second:load_state_dict(first:state_dict())
         for _ = 1, 3 do
            descend(first, a, b)
            descend(second, c, d)
         end
         assert.close({a:item(), b:item()}, {c:item(), d:item()}, 0)
      end
   end)

   it("has a state of plain data that shares nothing with another optimizer", function()
      local a = parameter(1)
      local first = optim.Adam({a}, {lr = 0.1})
      descend(first, a)
      local state = first:state_dict()
      assert.same({1}, state.param_groups[1].params)
      assert.equal(1, state.state[1].step)
      local second = optim.Adam({parameter(1)})
      second:load_state_dict(state)
      assert.is_false(second.state[1].exp_avg == first.state[1].exp_avg)
      assert.raises("expected 1 parameters, got 2", function()
         second:load_state_dict({state = {}, param_groups = {{params = {1, 2}}}})
      end)
      assert.raises("expected 1 groups, got 0", function()
         second:load_state_dict({state = {}, param_groups = {}})
      end)
   end)

   it("is printed with its options", function()
      local text = tostring(optim.SGD({parameter(1)}, {lr = 0.5}))
      assert.matches("SGD %(", text)
      assert.matches("group 1: 1 parameters", text)
      assert.matches("lr: 0.5", text)
   end)

   it("may be derived from", function()
      local Sign = torch.class("Sign", optim.Optimizer)
      function Sign:__init(params, options)
         optim.Optimizer.__init(self, params, options, {lr = 1})
      end
      function Sign:update(p, grad, _, group) p:add_(grad:sign(), {alpha = -group.lr}) end
      local a = parameter(5)
      descend(Sign({a}, {lr = 2}), a)
      assert.equal(3, a:item())
   end)
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
      assert.raises("closure: expected a function", function()
         optim.LBFGS({parameter(1)}):step()
      end)
   end)
end)
