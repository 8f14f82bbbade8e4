-- export_step.lua - torch.export_step: a training step as a program.

local export = require "tlua.export"
local step = require "tlua.export.step"
local trace = require "tlua.export.trace"

local wrap = getmetatable(export).wrap

--- Returns a training step as a program with forward pass, backward pass, optimizer, schedule and
--- random numbers. tl_program_step of tlua.h runs the program without Lua, with bitwise the same
--- results as the function. The function must begin with zero_grad() and return the loss, or
--- several tensors. It is called a few times while it is recorded; afterwards parameters,
--- optimizer, scheduler, scaler and random numbers are restored.
---
--- As long as the program is not loaded from a file, it stays in step with the script: a run
--- advances the schedulers, eager steps and runs may alternate, and options of the optimizers that
--- the script changes, such as `lr`, apply to the next run. A change that a run cannot follow
--- raises an error: another rate than the schedule's; another mode, layer, parameter, field,
--- `forward` or hook of a module; another state, `step` or hook of an optimizer; a hook of a
--- parameter; another value of a variable or of a table's field that `fn` or a function of the
--- script that it calls has read; new values in a tensor whose elements the program has copied or
--- `fn` has read; a function of the library that the script has replaced; and other modes of the
--- thread than in the export, such as no_grad, autocast or another default dtype. A run leaves the
--- gradients, `.grad`, as they are. A loaded program continues on its own, from the state and the
--- rates at the moment at which it was saved.
---
--- The export refuses a function that depends on more than that: one that reads a value of Lua that
--- each call changes, such as a count of calls in a variable, a field of the optimizer or a list's
--- length, a learning rate as a number, or a tensor that the previous call has left in a
--- variable, and one that calls math.random, os.time or io.open, or resumes a coroutine. Give such
--- values to the function as inputs, or keep a tensor in the option `state`. A run repeats only
--- operators: it prints nothing and appends to no list, so write logs outside of the function.
--- After an error, tensors that the function can reach have their values and gradients from before.
---
--- Steps that take turns, such as those of a GAN's discriminator and generator, may be exported one
--- by one. A step may add to gradients that another step has left, as the generator's step does to
--- those of the discriminator, but must not read them. In a script such programs share the models.
--- Loaded programs each have their own copies until program:share, or tl_program_share of tlua.h,
--- makes them use the same tensors, which it recognizes by their names: give each export the same
--- list of models.
---
---     local model = nn.Linear(2, 1)
---     local optimizer = torch.optim.SGD(model:parameters(), {lr = 0.1})
---     local function step(x, y)
---        optimizer:zero_grad()
---        local loss = nn.functional.mse_loss(model(x), y)
---        loss:backward()
---        optimizer:step()
---        return loss:detach()
---     end
---     local x, y = torch.randn(8, 2), torch.randn(8, 1)
---     local program = torch.export_step(step, {x, y}, {
---        model = model, optimizer = optimizer,
---     })
---     local first = program(x, y):item()
---     print(program(x, y):item() < first)
---     --> true
---@param fn function
---@param inputs Tensor|table  the arguments of a call, as for torch.export
---@param options {model: nn.Module|nn.Module[], optimizer: optim.Optimizer|optim.Optimizer[],
--- scheduler: optim.LRScheduler|optim.LRScheduler[], scaler: amp.GradScaler, steps: integer, state:
--- table<string, Tensor>, dynamic: table<string, table>, names: string[]}  the objects that the
--- function uses and changes; steps: for how many steps the scheduler's rates are computed, 10000
--- by default; after that many steps the program refuses to run; state: other tensors that the
--- function changes, by name
---@return export.Program
return function(fn, inputs, options)
   local given = trace.check_options("export_step", options, "model", "optimizer", "scheduler",
      "scaler", "steps", "state")
   local graph, link = step(fn, inputs, given)
   local program = wrap(graph)
   rawset(program, "link_", link)
   return program
end
