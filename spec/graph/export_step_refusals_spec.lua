-- Tests training steps that torch.export_step cannot turn into a program. They must raise an error that names the code.

local torch = require "tlua"
local training_step = require "spec.support.training_step"
local nn, optim, F = torch.nn, torch.optim, torch.nn.functional
local mlp <const>, sgd <const>, step_of <const> = training_step.mlp, training_step.sgd, training_step.of

describe("a training step that a program cannot repeat", function()
   local x, y = torch.randn(4, 8), torch.randint(1, 5, {4})

   local function refused(pattern, change, options)
      local model = mlp()
      local step, parts = step_of(model, options or {optimizer = sgd})
      local fn = change(step, parts, model)
      assert.error_matches(function() torch.export_step(fn, {x, y}, parts) end, pattern)
   end

   it("reads a value", function()
      refused("item: expected no use of a tensor's values", function(step)
         return function(a, b)
            local loss = step(a, b)
            if loss:item() > 100 then return loss * 2 end
            return loss
         end
      end)
   end)

   it("keeps gradients of earlier steps", function()
      local weight
      refused("export_step: 1.weight has a gradient of an earlier step; begin the step with zero_grad%(%), "
         .. "without set_to_none = false",
         function(_, parts, model)
            weight = model[1].weight
            weight.grad = torch.ones(16, 8)
            return function(a, b)
               local loss = F.cross_entropy(model(a), b)
               loss:backward()
               parts.optimizer:step()
               return loss:detach()
            end
         end)
      assert(weight.grad:equal(torch.ones(16, 8)))
   end)

   it("averages a model, since the average reads a count", function()
      refused("optim.swa_utils.AveragedModel.update_parameters: a program does not read n_averaged; export the step "
         .. "without this call, and make the call after each step of the program", function(step, _, model)
         local average = optim.swa_utils.AveragedModel(model)
         return function(a, b)
            local loss = step(a, b)
            average:update_parameters(model)
            return loss
         end
      end)
   end)

   it("calls functions in Lua in the backward pass", function()
      refused("the backward pass calls a function in Lua, such as a hook, .* or the function of torch.utils.checkpoint",
         function(_, parts, model)
            return function(a, b)
               parts.optimizer:zero_grad()
               local loss = F.cross_entropy(torch.utils.checkpoint(function(t) return model(t) end, a), b)
               loss:backward()
               parts.optimizer:step()
               return loss:detach()
            end
         end)
      refused("the backward pass calls a function in Lua", function(step, _, model)
         model[1].weight:register_hook(function(grad) return grad * 2 end)
         return step
      end)
   end)

   it("changes what it does not name", function()
      local counter = torch.zeros(1)
      refused("add_: it changes a tensor that is a constant of the program, .* or name it in the option `state`",
         function(step)
            return function(a, b)
               counter:add_(1)
               return step(a, b)
            end
         end)
   end)

   it("has another optimizer", function()
      refused("expected one whose step is one kernel, such as SGD or AdamW, got optim.LBFGS", function(step)
         return step
      end, {optimizer = function(params) return optim.LBFGS(params) end})
   end)

   it("has a schedule that is not named", function()
      refused("an option of the optimizer differs from step to step, 0.05 and 0.0%d+; give its scheduler",
         function(step, parts)
            parts.scheduler = nil
            return step
         end, {optimizer = sgd, scheduler = function(o) return optim.lr_scheduler.ExponentialLR(o, {gamma = 0.9}) end})
      refused("the function does not call its method `step`", function(step, parts)
         parts.scheduler = optim.lr_scheduler.ExponentialLR(parts.optimizer, {gamma = 0.9})
         return step
      end)
      refused("ReduceLROnPlateau depends on values", function(step, parts)
         parts.scheduler = optim.lr_scheduler.ReduceLROnPlateau(parts.optimizer)
         return step
      end)
   end)

   it("reads a value that a step changes", function()
      local count, model = torch.zeros(1), nn.BatchNorm1d(3, {momentum = false})
      local optimizer = optim.SGD(model:parameters(), {lr = 0.1})
      local function step(t)
         optimizer:zero_grad()
         local loss = model(t):square():mean()
         loss:backward()
         optimizer:step()
         return loss:detach()
      end
      local data = torch.randn(4, 3)
      assert.error_matches(function() torch.export_step(step, {data}, {model = model, optimizer = optimizer}) end,
         "item: expected no use of the values of a parameter, a buffer or a state that a run of the program may change")
      model.momentum = 0.1
      local function counted(t)
         count:add_(1)
         return step(t) + count:item()
      end
      assert.error_matches(function()
         torch.export_step(counted, {data}, {model = model, optimizer = optimizer, state = {count = count}})
      end, "item: expected no use of the values of a parameter, a buffer or a state")
   end)

   it("is past the end of its schedule", function()
      local step, parts = step_of(mlp(), {optimizer = sgd, steps = 3, scheduler = function(o)
         return optim.lr_scheduler.ExponentialLR(o, {gamma = 0.9})
      end})
      local program = torch.export_step(step, {x, y}, parts)
      for _ = 1, 3 do program(x, y) end
      assert.error_matches(function() program(x, y) end,
         "program: expected one of the 3 steps that the schedule was exported for, got step 4")
   end)

   it("is past the end of a schedule whose first change comes later", function()
      local step, parts = step_of(mlp(), {optimizer = sgd, steps = 3, scheduler = function(o)
         return optim.lr_scheduler.StepLR(o, 4)
      end})
      local path <const> = os.tmpname()
      torch.export_step(step, {x, y}, parts):save(path)
      local program = torch.export.load(path)
      os.remove(path)
      for _ = 1, 3 do program(x, y) end
      assert.error_matches(function() program(x, y) end,
         "program: expected one of the 3 steps that the schedule was exported for, got step 4")
   end)

   it("has a parameter without a shape", function()
      local model = nn.Sequential(nn.LazyLinear(2))
      assert.raises("export_step: the tensor 1.weight has no shape yet: call the model once before", function()
         torch.export_step(function(input) return model(input) end, {torch.ones(1, 3)}, {model = model})
      end)
      assert.raises("export: parameter 1.weight has no shape yet",
         function() torch.export(model, {torch.ones(1, 3)}) end)
   end)

   it("has a sparse buffer", function()
      local model = nn.Linear(2, 1)
      model.graph = nn.Buffer(torch.eye(2):to_sparse())
      local optimizer = optim.SGD(model:parameters(), {lr = 0.1})
      assert.error_matches(function()
         torch.export_step(function(data)
            optimizer:zero_grad()
            local loss = model(data):sum()
            loss:backward()
            optimizer:step()
            return loss:detach()
         end, {torch.ones(1, 2)}, {model = model, optimizer = optimizer})
      end, "export_step: the tensor graph: expected a dense tensor, got one of layout sparse_coo")
   end)

   it("gets options or arguments that do not fit", function()
      local function fails(pattern, fn, inputs, options)
         assert.error_matches(function() torch.export_step(fn, inputs, options) end, pattern)
      end
      local function step(t) return t end
      fails("export_step: fn: expected a function", 3, {x})
      fails("did you mean optimizer", step, {x}, {optimiser = 1})
      fails("export_step: model: expected a module or a list of them, got 3", step, {x}, {model = 3})
      fails("export_step: steps: expected an integer of at least 1, got 0", step, {x}, {steps = 0})
      fails("export_step: state: expected a table of tensors by name", step, {x}, {state = {1}})
      fails("export_step: inputs: expected a list", step, 3)
      assert.error_matches(function() torch.export(nn.ReLU(), {x}):step(x) end,
         "program.step: expected a program of torch.export_step, got one of torch.export")
   end)
end)
