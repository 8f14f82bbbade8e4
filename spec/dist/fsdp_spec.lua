-- Tests fully_shard. One process trains the same model on the whole batch, and gives the reference values.

local ranks = require "spec.dist.ranks"

local run <const>, case <const> = ranks:run_after "fsdp"

describe("fully_shard", function()
   it("shares out a model on meta, which trains once to_empty and a state have filled it", case(2, [==[
      local alone = build(16, 2)
      local model = shard(torch.default_device("meta", build, 16, 2))
      for _, p in ipairs(model:parameters()) do check(true, p.is_meta) end
      refused("is on the meta device and has no values: call to_empty", model, mine(x))
      local adam = torch.optim.AdamW(model:parameters(), {lr = 0.01})
      model:to_empty {device = "cpu"}
      local parts = shard(build(16, 2)):state_dict()
      model:load_state_dict(parts)
      local sgd = torch.optim.AdamW(alone:parameters(), {lr = 0.01})
      for step = 1, 3 do
         local expected, got = loss(alone, x, y), loss(model, mine(x), mine(y))
         assert(math.abs(expected:item() - mean(got)) < 1e-6, "loss of step " .. step)
         sgd:zero_grad() adam:zero_grad()
         expected:backward() got:backward()
         sgd:step() adam:step()
      end
   ]==]))

   it("draws first weights as layers do that are whole, with rank 0's generator", case(2, [==[
      local alone = build(16, 2)
      reset(alone, 3)
      local filled = shard(torch.default_device("meta", build, 16, 2))
      reset(filled, 3) -- the parameters are on the meta device, so this reset changes nothing
      check(true, filled:parameters()[1].is_meta)
      filled:to_empty {device = "cpu"}
      for _, model in ipairs {filled, shard(build(16, 2))} do
         local weight = model[1].weight
         for step = 1, 2 do
            local grad = weight.grad and weight.grad:clone()
            reset(model, 3 + rank)
            assert(rawequal(weight, model[1].weight) and weight:dim() == 1)
            assert(grad == nil and weight.grad == nil or grad:equal(weight.grad))
            for i, p in ipairs(model:parameters()) do near(full(p), alone:parameters()[i], 0) end
            near(model(mine(x)), mine(alone(x)))
            loss(model, mine(x), mine(y)):backward()
            torch.optim.SGD(model:parameters(), {lr = 0.1}):step()
         end
      end
      local linear = fully_shard(nn.Linear(4, 4))
      linear:unshard()
      reset(linear, 5 + rank) -- resets the parameters while they are gathered
      local other = nn.Linear(4, 4)
      reset(other, 5)
      near(full(linear.weight), other.weight, 0)
   ]==]))

   it("draws first weights on a mesh with replicas, and with parts in the CPU's memory", case(4, [==[
      local alone = build(8, 2)
      reset(alone, 3)
      loss(alone, x, y):backward()
      for _, kind in ipairs {"cpu", "sim"} do
         local mesh = dist.init_device_mesh(kind, {2, 2}, {mesh_dim_names = {"copy", "shard"}})
         for _, offload in ipairs {false, fsdp.CPUOffloadPolicy()} do
            local model = shard(build(8, 2):to(kind), {mesh = mesh,
               offload_policy = offload or nil})
            reset(model, 3 + rank)
            for i, p in ipairs(model:parameters()) do
               check(offload and "cpu" or kind, p.device.type)
               near(full(p):cpu(), alone:parameters()[i], 0)
            end
            loss(model, mine(x):to(kind), mine(y):to(kind)):backward()
            for i, p in ipairs(model:parameters()) do
               near(full(p, p.grad):cpu(), alone:parameters()[i].grad)
            end
         end
      end
   ]==]))

   it("refuses to draw first weights of layers that tensor parallelism has split", case(4, [==[
      local mesh = dist.init_device_mesh("cpu", {2, 2}, {mesh_dim_names = {"dp", "tp"}})
      local split = dist.tensor.parallel.ColwiseParallel()
      local model = build(8, 1)
      dist.tensor.parallel.parallelize_module(model, mesh.tp, {["2.a"] = split})
      local layer = model[2].a
      refused("reset_parameters: 2.a is split by tensor parallelism; call reset_parameters before",
         layer.reset_parameters, layer)
      shard(model, {mesh = mesh.dp})
      local before = full(layer.weight)
      refused("reset_parameters: weight is split by tensor parallelism", layer.reset_parameters,
         layer)
      near(full(layer.weight), before, 0)
      reset(model[1], 3 + mesh.dp:get_local_rank())
      local other = nn.Linear(5, 8)
      reset(other, 3)
      near(full(model[1].weight), other.weight, 0)
   ]==]))

   for _, row in ipairs {{2, "{}"}, {4, "{}"}, {2, "{reshard_after_forward = false}"}} do
      it(("trains as one process does: %d ranks, %s"):format(row[1], row[2]), function()
         run(row[1], [==[
            local alone, model = build(16, 3), shard(build(16, 3), ]==] .. row[2] .. [==[)
            local sgd = torch.optim.AdamW(alone:parameters(), {lr = 0.01})
            local adam = torch.optim.AdamW(model:parameters(), {lr = 0.01})
            for step = 1, 8 do
               local expected, got = loss(alone, x, y), loss(model, mine(x), mine(y))
               assert(math.abs(expected:item() - mean(got)) < 1e-6, "loss of step " .. step)
               sgd:zero_grad() adam:zero_grad() -- these calls also work between the forward and the backward pass
               expected:backward() got:backward()
               if step == 1 then near_model(model, alone) end
               local norm = nn.utils.clip_grad_norm_(alone:parameters(), 0.5)
               -- A step divides by roots of small gradients, which enlarges rounding errors. So from the second step
               -- on, the parameters and the norm have as large an error as the final parameters.
               near(norm, nn.utils.clip_grad_norm_(model:parameters(), 0.5),
                  step == 1 and 1e-6 or 2e-5)
               sgd:step() adam:step()
            end
            near_model(model, alone, 2e-5)
            local elements = torch.zeros(1)
            for _, p in ipairs(model:parameters()) do elements = elements + p:numel() end
            dist.all_reduce(elements)
            local all = 0
            for _, p in ipairs(alone:parameters()) do all = all + p:numel() end
            check({all + 0.0}, elements)
         ]==])
      end)
   end

   it("keeps 1/N of parameters, gradients and state, and two blocks", case(4, [==[
      local w, blocks = 96, 8
      local function bytes(module)
         local n = 0
         for _, p in ipairs(module:parameters()) do n = n + 4 * p:numel() end
         return n
      end
      local function peak_of(model, steps)
         local adam = torch.optim.AdamW(model:parameters())
         local a, b = mine(x), mine(y)
         for _ = 1, steps do
            collectgarbage() collectgarbage()
            torch.reset_peak_memory_stats()
            adam:zero_grad()
            loss(model, a, b):backward()
            adam:step()
         end
         return torch.max_memory_allocated()
      end
      collectgarbage() collectgarbage()
      local before = torch.memory_allocated()
      local model = build(w, blocks)
      local total, block = bytes(model), bytes(model[2])
      -- the peak without the parameters, which is the memory of activations and kernels
      local beside = peak_of(model, 3) - before - 4 * total
      model = nil
      collectgarbage() collectgarbage()
      local sharded = shard(build(w, blocks))
      peak_of(sharded, 1) -- the first step allocates the buffers of the parameter groups
      sharded:zero_grad()
      collectgarbage() collectgarbage()
      local held = 0
      for _, p in ipairs(sharded:parameters()) do held = held + 4 * p:numel() end
      assert(held <= total // 4 + 64)
      local groups = torch.memory_allocated() - before - held
      local peak = peak_of(sharded, 3) - before - groups
      -- The gates are autograd functions at both ends of each block. In both passes they keep inputs and outputs that
      -- are Lua values, which may stay in memory until garbage is collected.
      local gates = 2 * 4 * (blocks + 1) * part * w * 4
      -- The limit is a quarter of the model's size for each of 4 kinds of tensors, plus the sizes of the gathered
      -- blocks and of their gradients.
      local limit = total + 2 * 2 * block + beside + gates
      assert(peak <= limit, ("%d bytes, at most %d expected; blocks of %d, %d beside"):format(
         peak, limit, block, beside))
      assert(peak < 0.6 * 4 * total)
   ]==]))

   it("gathers and reduces each block's row as often as its stage of ZeRO needs", case(2, [==[
      local group, counts = dist.group.WORLD, {}
      local raw = group.raw
      group.raw = {run = function(_, kind, ...)
         counts[kind] = (counts[kind] or 0) + 1
         return raw:run(kind, ...)
      end}
      for _, case in ipairs {{nil, 3 * 2 + 1}, {true, 4 * 2}, {false, 4}} do
         local model = shard(build(8, 3), {reshard_after_forward = case[1]})
         for _ = 1, 3 do
            counts = {}
            loss(model, mine(x), mine(y)):backward()
            check(case[2], counts.all_gather)
            check(4, counts.reduce_scatter)
            check(nil, counts.all_reduce)
         end
         counts = {}
         torch.no_grad(function() model(mine(x)) end)
         check(4, counts.all_gather)
      end
      group.raw = raw
   ]==]))

   it("gathers modules in advance that the user has named", case(2, [==[
      local group, gathered = dist.group.WORLD, 0
      local raw = group.raw
      group.raw = setmetatable({run = function(_, kind, ...)
         if kind == "all_gather" then gathered = gathered + 1 end
         return raw:run(kind, ...)
      end}, {__index = function() return function() end end})
      -- In the first pass, the order of the blocks is not yet known. The root, block 2, and the blocks named by
      -- set_modules_to_forward_prefetch are gathered. The backward pass gathers block 4 and the block before it. The
      -- root stays gathered.
      for _, case in ipairs {{nil, nil, 2, 2}, {{3, 4}, {3, 2}, 4, 3}, {{}, {2}, 2, 2}} do
         local model, ahead, back = shard(build(8, 3)), {}, {}
         for _, i in ipairs(case[1] or {}) do ahead[#ahead + 1] = model[i] end
         for _, i in ipairs(case[2] or {}) do back[#back + 1] = model[i] end
         if case[1] then model[2]:set_modules_to_forward_prefetch(ahead) end
         if case[2] then model[4]:set_modules_to_backward_prefetch(back) end
         local forward, backward
         model[2].a:register_forward_hook(function() forward = gathered end)
         model[4].b:register_forward_hook(function(_, _, out)
            out:register_hook(function() backward = gathered end)
         end)
         gathered = 0
         local value = loss(model, mine(x), mine(y))
         local before = gathered
         value:backward()
         check(case[3], forward)
         check(case[4], backward - before)
         local alone = build(8, 3)
         loss(alone, x, y):backward()
         near_model(model, alone)
      end
      group.raw = raw
   ]==]))

   it("gathers parameters at unshard(), and for other methods than forward", case(2, [==[
      local alone, model = build(8, 1), build(8, 1)
      for _, net in ipairs {alone, model} do
         rawset(net[2], "twice", function(self, t) return self:forward(t) * 2 end)
      end
      shard(model)
      local weight, whole = model[2].a.weight, alone[2].a.weight
      local held = weight:numel()
      local handle = model[2]:unshard(true)
      check(held, weight:numel())
      handle:wait()
      handle:wait()
      near(weight, whole, 0)
      model[2]:reshard()
      check(held, weight:numel())
      check(nil, model[2]:unshard())
      near(weight, whole, 0)
      model[2]:reshard()
      model[2]:unshard(true) -- the forward call waits for the unshard that has begun
      near(model(mine(x)), alone(mine(x)))
      fsdp.register_fsdp_forward_method(model[2], "twice")
      fsdp.register_fsdp_forward_method(alone[2], "twice")
      local t = torch.randn(3, 8)
      near(model[2]:twice(t), alone[2]:twice(t))
      check(held, weight:numel())
      refused("method_name: expected the name of a method of the module, got \"three\"",
         fsdp.register_fsdp_forward_method, model[2], "three")
      refused("module: expected a module, got 3", fsdp.register_fsdp_forward_method, 3, "x")
      refused("async_op: expected a boolean, got 1", model.unshard, model, 1)
   ]==]))

   it("divides gradients by a given factor, and passes them to a hook", case(2, [==[
      local alone, model = build(8, 2), shard(build(8, 2))
      loss(alone, x, y):backward()
      -- With 2 ranks, dividing by 0.5 instead of 2 gives four times the average.
      model[2]:set_gradient_divide_factor(0.5)
      model[3]:set_all_reduce_hook(function(t) check(1, t:dim()) t:mul_(-3) end)
      loss(model, mine(x), mine(y)):backward()
      for k, factor in ipairs {1, 4, -3, 1} do
         local theirs = alone[k]:parameters()
         for i, p in ipairs(model[k]:parameters()) do
            near(full(p, p.grad), theirs[i].grad * factor, 4e-6)
         end
      end
      model:zero_grad()
      model[3]:set_all_reduce_hook(nil)
      model[2]:set_gradient_divide_factor(2)
      loss(model, mine(x), mine(y)):backward()
      near_model(model, alone)
      check(nil, model:set_is_last_backward(true))
      refused("is_last_backward: expected a boolean, got nil", model.set_is_last_backward, model)
      refused("factor: expected a number above 0, got 0", model.set_gradient_divide_factor, model, 0)
      refused("hook: expected a function, got 3", model.set_all_reduce_hook, model, 3)
      refused("set_modules_to_forward_prefetch: modules[1]: expected a module that fully_shard",
         model.set_modules_to_forward_prefetch, model, {model[2].a})
      refused("set_modules_to_backward_prefetch: modules: expected a list of modules, got ",
         model.set_modules_to_backward_prefetch, model, model[2])
   ]==]))

   it("leaves the average over replicas to a later pass", case(4, [==[
      local mesh = dist.init_device_mesh("cpu", {2, 2})
      local alone, model = build(8, 1), shard(build(8, 1), {mesh = mesh})
      model:set_requires_all_reduce(false)
      for _ = 1, 2 do loss(model, mine(x), mine(y)):backward() end
      for _, p in ipairs(model:parameters()) do check(nil, p.grad) end
      model:set_requires_all_reduce(true)
      loss(model, mine(x), mine(y)):backward()
      for _ = 1, 3 do loss(alone, x, y):backward() end
      near_model(model, alone, 3e-6)
      model:zero_grad() alone:zero_grad() -- after zero_grad there are no gradients
      model[2]:set_gradient_divide_factor(1)
      loss(model, mine(x), mine(y)):backward()
      loss(alone, x, y):backward()
      for i, p in ipairs(model[2]:parameters()) do
         near(full(p, p.grad), alone[2]:parameters()[i].grad * 4, 4e-6)
      end
      refused("requires_all_reduce: expected a boolean, got 1", model.set_requires_all_reduce, model, 1)
   ]==]))

   it("does not gather rows that the last pass has kept, except after a step", case(2, [==[
      local alone = build(8, 3)
      local model = shard(build(8, 3))
      local sgd, sgd_alone = torch.optim.SGD(model:parameters(), {lr = 0.1}),
         torch.optim.SGD(alone:parameters(), {lr = 0.1})
      local group, gathered = dist.group.WORLD, 0
      local raw = group.raw
      group.raw = {run = function(_, kind, ...)
         if kind == "all_gather" then gathered = gathered + 1 end
         return raw:run(kind, ...)
      end}
      model:set_reshard_after_forward(false)
      model:set_reshard_after_backward(false)
      for _, expected in ipairs {4, 0, 0} do
         gathered = 0
         loss(model, mine(x), mine(y)):backward()
         loss(alone, x, y):backward()
         check(expected, gathered)
      end
      sgd:step() sgd_alone:step() sgd:zero_grad() sgd_alone:zero_grad()
      gathered = 0
      loss(model, mine(x), mine(y)):backward()
      loss(alone, x, y):backward()
      check(4, gathered)
      near_model(model, alone)
      model:set_reshard_after_backward(true)
      loss(model, mine(x), mine(y)):backward()
      gathered = 0
      loss(model, mine(x), mine(y)):backward()
      check(4, gathered)
      group.raw = raw
      local ok, message = pcall(model.set_reshard_after_backward, model, 1)
      check(false, ok)
      assert(message:find("reshard_after_backward: expected a boolean, got 1", 1, true), message)
   ]==]))

   it("skips a step on all ranks if one of them has an infinite gradient", case(2, [==[
      local model = fully_shard(nn.Linear(4, 1, {bias = false}))
      local before = full(model.weight):clone()
      for _, before_step in ipairs {false, true} do
         local scaler = torch.amp.GradScaler("cpu", {init_scale = 8})
         local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
         local t = torch.ones(1, 4)
         t[{1, 4}] = math.huge
         scaler:scale(model(t):sum()):backward()
         check(rank == 1, not torch.isfinite(model.weight.grad):all():item())
         if before_step then scaler:unscale_(sgd) end
         scaler:step(sgd)
         scaler:update()
         near(full(model.weight), before, 0)
         check(4.0, scaler:get_scale())
         model:zero_grad()
      end
   ]==]))

   it("adds up gradients over passes, with and without averaging each", case(2, [==[
      local alone = build(8, 2)
      loss(alone, x, y):backward()
      local half = part // 2
      for _, sync in ipairs {true, false} do
         local model = shard(build(8, 2))
         local a, b = mine(x), mine(y)
         model:set_requires_gradient_sync(sync)
         ;(loss(model, a:narrow(1, 1, half), b:narrow(1, 1, half)) / 2):backward()
         if not sync then check(nil, model[1].weight.grad) end
         model:set_requires_gradient_sync(true)
         local rest = loss(model, a:narrow(1, half + 1, half), b:narrow(1, half + 1, half)) / 2
         rest:backward()
         near_model(model, alone)
      end
   ]==]))

   it("works with checkpoints, parts used twice, frozen and unused ones", case(2, [==[
      local Odd = torch.class("Odd", nn.Module)
      function Odd:__init()
         nn.Module.__init(self)
         torch.manual_seed(3)
         self.first, self.twice, self.last = nn.Linear(5, 8), Block(8), nn.Linear(8, 3)
         self.cold, self.never = Block(8), nn.Linear(8, 8)
         for _, p in ipairs(self.cold:parameters()) do p.requires_grad = false end
      end
      function Odd:forward(t)
         t = self.twice(self.cold(self.twice(self.first(t))))
         return self.last(torch.utils.checkpoint(self.twice, t))
      end
      local alone, model = Odd(), Odd()
      fully_shard(model.twice) fully_shard(model.cold) fully_shard(model.never)
      fully_shard(model)
      for _ = 1, 2 do
         loss(alone, x, y):backward()
         loss(model, mine(x), mine(y)):backward()
      end
      near_model(model, alone, 2e-6)
      check(nil, model.never.weight.grad)
      check(nil, model.cold.a.weight.grad)
   ]==]))

   it("computes in another dtype, and keeps its own", case(2, [==[
      local seen
      local policy = fsdp.MixedPrecisionPolicy {param_dtype = "bfloat16",
         reduce_dtype = "float32"}
      local outer = fsdp.MixedPrecisionPolicy {param_dtype = "bfloat16",
         reduce_dtype = "float32", output_dtype = "float32"}
      local alone, model = build(8, 2), build(8, 2)
      model[3]:register_forward_pre_hook(function(m, t) seen = {t.dtype, m.a.weight.dtype} end)
      for i = 2, 3 do fully_shard(model[i], {mp_policy = policy}) end
      fully_shard(model, {mp_policy = outer})
      local l = loss(model, mine(x), mine(y))
      check("float32", l.dtype)
      l:backward()
      loss(alone, x, y):backward()
      check("bfloat16", seen[1])
      check("float32", model[1].weight.dtype)
      check("float32", model[1].weight.grad.dtype)
      near_model(model, alone, 0.05)
      near(full(model[2].a.weight), alone[2].a.weight, 0)
   ]==]))

   it("works after a pass that has failed", case(2, [==[
      local alone, model = build(8, 2), shard(build(8, 2))
      local fails = true
      local Fail = torch.class("Fail", torch.autograd.Function)
      function Fail.forward(_, t) return t:view_as(t) end
      function Fail.backward(_, g)
         if fails then error("on purpose", 0) end
         return g
      end
      local inner = model[2].forward
      model[2].forward = function(self, t)
         if fails == "forward" then error("in forward", 0) end
         return Fail:apply(inner(self, t))
      end
      refused("on purpose", function() loss(model, mine(x), mine(y)):backward() end)
      fails = "forward"
      refused("in forward", function() loss(model, mine(x), mine(y)):backward() end)
      fails = false
      model:zero_grad()
      loss(model, mine(x), mine(y)):backward()
      loss(alone, x, y):backward()
      near_model(model, alone)
   ]==]))

   it("computes on a device with parts in the CPU's memory, and copies along a second dimension",
      function()
      run(4, [==[
         local alone = build(8, 2)
         loss(alone, x, y):backward()
         local mesh = dist.init_device_mesh("sim", {2, 2}, {mesh_dim_names = {"copy", "shard"}})
         local model = build(8, 2):to "sim"
         shard(model, {mesh = mesh, offload_policy = fsdp.CPUOffloadPolicy()})
         check("cpu", model[2].a.weight.device)
         local n = 0
         for _, p in ipairs(model:parameters()) do n = n + p:numel() end
         loss(model, mine(x):to "sim", mine(y):to "sim"):backward()
         check("cpu", model[2].a.weight.grad.device)
         near_model(model, alone)
      ]==])
   end)

   it("computes with the stepped parameters, also after a forward pass without a backward pass",
      function()
      run(2, [==[
         for _, reshard in ipairs {true, false} do
            local alone, model = build(8, 2), shard(build(8, 2), {reshard_after_forward = reshard})
            local one = torch.optim.SGD(alone:parameters(), {lr = 0.1})
            local many = torch.optim.SGD(model:parameters(), {lr = 0.1})
            loss(alone, x, y):backward()
            loss(model, mine(x), mine(y)):backward()
            model(mine(x))
            one:step() many:step()
            near(model(mine(x)), mine(alone(x)))
            torch.no_grad(function() near(model(mine(x)), mine(alone(x))) end)
         end
      ]==])
   end)

   -- Hooks that refer to their own parameters are collected only after some time. Therefore one earlier model may still
   -- be in memory, but not two. With MPI, other code leaves garbage at first, which is collected before the
   -- measurement.
   it("is freed with its model", case(2, [==[
      collectgarbage() collectgarbage()
      local before, alive = torch.memory_allocated(), 0
      for _ = 1, 20 do
         do
            local model = shard(build(32, 3))
            loss(model, mine(x), mine(y)):backward()
            if alive == 0 then alive = torch.memory_allocated() - before end
         end
         collectgarbage() collectgarbage()
         local used = torch.memory_allocated() - before
         assert(used <= 2 * alive, used .. " bytes, one model has " .. alive)
      end
   ]==]))

   it("takes tied parameters in one unit, and refuses them in two", case(2, [==[
      local function tied()
         torch.manual_seed(4)
         local net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3))
         net[3].weight = net[1].weight
         return net
      end
      local alone, whole = tied(), fully_shard(tied())
      local x = torch.ones(2, 3)
      alone(x):sum():backward()
      whole(x):sum():backward()
      local mine = dist.fsdp.full_tensor(whole[1].weight, whole[1].weight.grad)
      check(true, (mine - alone[1].weight.grad):abs():max():item() < 1e-6)
      local two = tied()
      fully_shard(two[1])
      refused("parameter weight is tied to weight of a module that is sharded already", fully_shard, two[3])
      refused("parameter 3.weight is tied to weight of a module that is sharded already", fully_shard, two)
      fully_shard(two[3], {ignored_params = {two[3].weight}})
      local three = tied()
      fully_shard(three[1])
      refused("parameter 3.weight is tied to weight of a module that is sharded already",
         function() three(x) end)
   ]==]))

   it("explains why a loss cannot use a parameter directly beside its module's result", case(4, [==[
      local model = fully_shard(nn.Linear(4, 4))
      local data = torch.ones(2, 4)
      local function penalized() return model(data):sum() + (model.weight ^ 2):sum() end
      refused("arrived for one tensor: it had other data at one of its uses",
         function() penalized():backward() end)
      model:zero_grad()
      model(data):sum():backward() -- after the error, all calls work again
      check({2.0, 2.0, 2.0, 2.0}, full(model.weight, model.weight.grad)[1])
   ]==]))

   it("refuses unsupported modules and options", case(2, [==[
      refused("module: expected a module, got 1", fully_shard, 1)
      local model = fully_shard(nn.Linear(4, 4))
      refused("sharded already", fully_shard, model)
      refused("mp_policy: expected a MixedPrecisionPolicy", fully_shard, nn.Linear(1, 1),
         {mp_policy = nn.Linear(1, 1)})
      refused("unknown option reshard", fully_shard, nn.Linear(1, 1), {reshard = true})
      refused("param_dtype: expected a floating dtype, got \"int8\"", fsdp.MixedPrecisionPolicy,
         {param_dtype = "int8"})
      refused("mesh: expected a mesh", fully_shard, nn.Linear(1, 1), {mesh = nn.Linear(1, 1)})
      refused(("parameter 1 is weight (2x%d, float32) here, but weight (2x%d, float32) on " ..
         "rank %d"):format(rank + 1, 2 - rank, 1 - rank), fully_shard, nn.Linear(rank + 1, 2))
      model:double()
      refused("weight was replaced or moved after fully_shard", model, torch.ones(1, 4))
   ]==]))
end)
