-- Tests DistributedDataParallel. One process trains the same model on the whole batch, and gives the reference values.

local ranks = require "spec.dist.ranks"

local _, case <const> = ranks:run_after "ddp"

describe("DistributedDataParallel", function()
   it("gives the gradients of the whole batch, the same bits on all ranks", case({2, 4}, [==[
      local model = DDP(build(rank + 1)) -- DDP copies rank 0's parameters to all ranks
      for step = 1, 3 do
         model:zero_grad {set_to_none = step ~= 3}
         loss(model, mine(x), mine(y)):backward()
         near(grads(model), expected)
         same_everywhere(grads(model))
      end
   ]==]))

   it("averages sparse gradients of embeddings, of rows that differ among the ranks", case({2, 3}, [==[
      local words = torch.tensor {{1, 2}, {5, 2}, {3, 3}, {1, 6}, {2, 4}, {6, 6}}
      local function net(sparse)
         torch.manual_seed(rank + 1)
         local model = nn.Sequential(nn.Embedding(7, 3, {sparse = sparse}), nn.Flatten(), nn.Linear(6, 1))
         torch.no_grad(function()
            for _, p in ipairs(model:parameters()) do
               p:copy_((torch.arange(p:numel()) * 0.3):sin():view(p.shape))
            end
         end)
         return model
      end
      local model, alone = DDP(net(true)), net(false)
      local own = words:narrow(1, rank * (6 // size) + 1, 6 // size)
      local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local other = torch.optim.SGD(alone:parameters(), {lr = 0.1})
      for _ = 1, 3 do
         model:zero_grad() alone:zero_grad()
         model(own):square():mean():backward()
         alone(words):square():mean():backward()
         local grad = model.module[1].weight.grad
         check("sparse_coo", grad.layout)
         near({grad:to_dense()}, {alone[1].weight.grad}, 1e-5)
         sgd:step() other:step()
      end
      near(model:parameters(), alone:parameters(), 1e-5)
      same_everywhere(model:parameters())
   ]==]))

   it("does so with many small buckets, whose views the gradients are", case(2, [==[
      local model = DDP(build(1), {bucket_cap_mb = 1e-4})
      assert(#model.buckets > 1)
      for _ = 1, 2 do
         model:zero_grad()
         loss(model, mine(x), mine(y)):backward()
      end
      near(grads(model), expected)
      local view = model.place[1][1].views[model.place[1][2]]
      check(view:data_ptr(), model.module[1].weight.grad:data_ptr())
   ]==]))

   it("trains all ranks alike", case(2, [==[
      local model, alone = DDP(build(1)), build(1)
      local adam = torch.optim.Adam(model:parameters(), {lr = 0.01})
      local other = torch.optim.Adam(alone:parameters(), {lr = 0.01})
      for _ = 1, 20 do
         adam:zero_grad() other:zero_grad()
         loss(model, mine(x), mine(y)):backward() loss(alone, x, y):backward()
         adam:step() other:step()
      end
      near(model:parameters(), alone:parameters(), 1e-4)
      same_everywhere(model:parameters())
      check("module.1.weight", (model:named_parameters()()))
   ]==]))

   it("adds up without averaging under no_sync", case(2, [==[
      local model = DDP(build(1))
      local half = part // 2
      local a, b = mine(x), mine(y)
      model:no_sync(function()
         (loss(model, a:narrow(1, 1, half), b:narrow(1, 1, half)) / 2):backward()
      end)
      do
         local _ <close> = model:no_sync()
         check(false, model.sync)
      end
      local second = loss(model, a:narrow(1, half + 1, half), b:narrow(1, half + 1, half)) / 2
      second:backward()
      near(grads(model), expected)
      same_everywhere(grads(model))
   ]==]))

   it("names parameters that got no gradient, or takes them as zeros when asked to", case(2, [==[
      torch.manual_seed(1)
      local t = torch.ones(1, 2)
      local model = DDP(Half(), {find_unused_parameters = true})
      for _ = 1, 2 do
         model:zero_grad()
         model(t, rank == 0):sum():backward()
         check({{1.0, 1.0}, {1.0, 1.0}}, model.module.used.weight.grad)
         check({{0.5, 0.5}, {0.5, 0.5}}, model.module.maybe.weight.grad)
         check(nil, model.module.never.weight.grad)
      end
      local strict = DDP(Half())
      refused("no gradient came for maybe.weight, maybe.bias, never.weight, never.bias on rank",
         function() strict(t):sum():backward() end)
   ]==]))

   it("searches only once for parameters without a gradient if static_graph = true", case(2, [==[
      torch.manual_seed(1)
      local t = torch.ones(1, 2)
      local model = DDP(Half(), {static_graph = true})
      local calls = {}
      local raw = model.group.raw
      rawset(model, "group", setmetatable({raw = setmetatable({run = function(_, kind, ...)
         calls[#calls + 1] = kind
         return raw:run(kind, ...)
      end, buffer = function() end, common = function() end, next_pass = function() end}, {})},
         {__index = model.group}))
      for pass = 1, 3 do
         calls = {}
         model:zero_grad()
         model(t, rank == 0):sum():backward()
         check({{1.0, 1.0}, {1.0, 1.0}}, model.module.used.weight.grad)
         check({{0.5, 0.5}, {0.5, 0.5}}, model.module.maybe.weight.grad)
         check(nil, model.module.never.weight.grad)
         -- The model has one bucket. In the first pass, the ranks also exchange which parameters were used and the
         -- order of gradients.
         check(pass == 1 and {"all_reduce", "all_reduce", "broadcast"} or {"all_reduce"}, calls)
      end
      refused("static_graph: maybe." .. (rank == 0 and "weight got no gradient" or "weight got a gradient") ..
         " on rank " .. rank .. ", unlike in the first pass", function()
         model(t, rank == 1):sum():backward()
      end)
   ]==]))

   it("gives rank 0's buffers to all", case(2, [==[
      local model = DDP(nn.BatchNorm1d(2))
      model(torch.full({4, 2}, rank + 1.0)):sum():backward()
      model(torch.full({4, 2}, 1.0)):sum():backward()
      check({0.1 * 0.9 + 0.1, 0.1 * 0.9 + 0.1}, model.module.running_mean:double():mul(1e6):round():div(1e6))
   ]==]))

   it("takes hooks that compress gradients", case(2, [==[
      local hooks = dist.algorithms.ddp_comm_hooks
      for _, row in ipairs {{"allreduce_hook", 1e-6}, {"fp16_compress_hook", 1e-3},
         {"bf16_compress_hook", 1e-2}} do
         local model = DDP(build(1))
         model:register_comm_hook(nil, hooks.default_hooks[row[1]])
         loss(model, mine(x), mine(y)):backward()
         near(grads(model), expected, row[2])
         same_everywhere(grads(model))
      end
      local default = hooks.default_hooks
      for _, row in ipairs {{"fp16_compress_wrapper", "float16", 1e-3},
         {"bf16_compress_wrapper", "bfloat16", 1e-2}} do
         local model, seen = DDP(build(1)), nil
         model:register_comm_hook(nil, default[row[1]](function(state, bucket)
            seen = bucket:gradients()[1].dtype
            return default.allreduce_hook(state, bucket)
         end))
         loss(model, mine(x), mine(y)):backward()
         check(row[2], seen)
         near(grads(model), expected, row[3])
         same_everywhere(grads(model))
      end
   ]==]))

   it("compresses by PowerSGD, without error if the rank suffices", case(2, [==[
      local power = dist.algorithms.ddp_comm_hooks.powerSGD_hook
      local function gradient(weight_rank, steps)
         torch.manual_seed(3)
         local layer = nn.Linear(32, 32, {bias = false})
         local model = DDP(layer)
         model:register_comm_hook(power.PowerSGDState {matrix_approximation_rank = weight_rank,
            start_powerSGD_iter = 1}, power.powerSGD_hook)
         -- The gradient has rank 2, because there are two inputs; they are the same in both processes.
         local a, b = torch.randn(2, 32), torch.randn(2, 32)
         local sum = torch.zeros(32, 32)
         for _ = 1, steps do
            model:zero_grad()
            ;(model(a) * b):sum():backward()
            sum = sum + layer.weight.grad
         end
         same_everywhere {layer.weight.grad}
         return sum / steps, b:t():matmul(a)
      end
      local got, exact = gradient(2, 3)
      near({got}, {exact}, 1e-3)
      -- An approximation of rank 1 leaves out a part of the gradient in each step, but adds the part to later
      -- gradients.
      local one, whole = gradient(1, 2)
      local many = gradient(1, 60)
      assert((many - whole):norm():item() < 0.3 * (one - whole):norm():item())
   ]==]))

   it("takes uneven inputs within Join", case(2, [==[
      local model = DDP(nn.Linear(2, 1, {bias = false}))
      torch.no_grad(function() model.module.weight:fill_(0) end)
      local sgd = torch.optim.SGD(model:parameters(), {lr = 1})
      local steps = rank == 0 and 1 or 3
      check("done", dist.algorithms.Join(model, function()
         for _ = 1, steps do
            sgd:zero_grad()
            model(torch.ones(1, 2)):sum():backward()
            sgd:step()
         end
         return "done"
      end))
      -- After a step of both ranks the weight is -1. Then rank 1 makes two steps alone, in which its gradient is
      -- halved, and rank 0 receives rank 1's weights.
      check({{-2.0, -2.0}}, model.module.weight)
   ]==]))

   it("runs on the simulated device with the same bits", case(2, [==[
      local model = DDP(build(1):to "sim")
      loss(model, mine(x):to "sim", mine(y):to "sim"):backward()
      local there = {}
      for i, g in ipairs(grads(model)) do there[i] = g:cpu() end
      near(there, expected)
      same_everywhere(there)
   ]==]))

   it("gives gradients memory of their own without gradient_as_bucket_view", case(2, [==[
      local model = DDP(build(1), {gradient_as_bucket_view = false, static_graph = true,
         device_ids = {"cpu"}})
      for _ = 1, 2 do
         model:zero_grad()
         loss(model, mine(x), mine(y)):backward()
         near(grads(model), expected)
         local view = model.place[1][1].views[model.place[1][2]]
         assert(view:data_ptr() ~= model.params[1].grad:data_ptr())
      end
      -- since gradients accumulate, this pass doubles the gradient
      loss(model, mine(x), mine(y)):backward()
      for i, g in ipairs(expected) do expected[i] = g * 2 end
      near(grads(model), expected)
   ]==]))

   it("works with a gradient scaler and autocast, as one process does", case(2, [==[
      local function train(model, a, b)
         local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
         local scaler = torch.amp.GradScaler("cpu", {init_scale = 2 ^ 10, growth_interval = 2})
         for step = 1, 6 do
            sgd:zero_grad()
            local value = torch.autocast({device = "cpu", dtype = "bfloat16"},
               function() return loss(model, a, b) end)
            -- the loss of one rank becomes infinite in the third step
            if step == 3 and rank == 0 then value = value * (1 / 0) end
            scaler:scale(value):backward()
            scaler:step(sgd)
            scaler:update()
         end
         return scaler:get_scale()
      end
      local model = DDP(build(1))
      local scale = train(model, mine(x), mine(y))
      -- Both ranks have skipped the third step. The scale began at 2^10. It was doubled after two good steps, halved
      -- after the bad step, and doubled again after two good steps; one more good step changed nothing.
      check(2.0 ^ 11, scale)
      same_everywhere(model:parameters())
      for _, p in ipairs(model:parameters()) do assert(p:isfinite():all():item()) end
   ]==]))

   it("works with checkpointed activations", case(2, [==[
      local Saved = torch.class("SavedBlocks", nn.Module)
      function Saved:__init(net)
         nn.Module.__init(self)
         self.net = net
      end
      function Saved:forward(t)
         return torch.utils.checkpoint(function(u) return self.net(u) end, t)
      end
      local model = DDP(Saved(build(1)))
      for _ = 1, 2 do
         model:zero_grad()
         loss(model, mine(x):clone():requires_grad_(), mine(y)):backward()
         near(grads(model), expected)
         same_everywhere(grads(model))
      end
   ]==]))

   it("averages first gradients, then from time to time parameters (post-local SGD)", case(2, [==[
      local hooks = dist.algorithms.ddp_comm_hooks.post_localSGD_hook
      local model = DDP(build(1))
      model:register_comm_hook(hooks.PostLocalSGDState {start_localSGD_iter = 1},
         hooks.post_localSGD_hook)
      local averager = dist.algorithms.model_averaging.averagers.PeriodicModelAverager(2,
         {warmup_steps = 1})
      local sgd = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local function step()
         sgd:zero_grad()
         loss(model, mine(x), mine(y)):backward()
         sgd:step()
      end
      step()
      near(grads(model), expected)
      same_everywhere(model:parameters())
      averager:average_parameters(model)
      step() -- the hook no longer averages gradients, so the parameters of the ranks become different
      local list = {}
      for i, p in ipairs(model:parameters()) do
         list[i] = p:detach():clone()
         dist.all_reduce(list[i], "avg")
      end
      assert((list[1] - model:parameters()[1]):abs():max():item() > 1e-5)
      averager:average_parameters(model:parameters())
      near(model:parameters(), list)
      same_everywhere(model:parameters())
      -- PostLocalSGDOptimizer averages the parameters in its step. It must give the same parameters as separate calls
      -- of the averager.
      local function both()
         local net = DDP(build(1))
         net:register_comm_hook(hooks.PostLocalSGDState {start_localSGD_iter = 1},
            hooks.post_localSGD_hook)
         return net, dist.optim.PostLocalSGDOptimizer(torch.optim.SGD(net:parameters(), {lr = 0.1}),
            dist.algorithms.model_averaging.averagers.PeriodicModelAverager(2, {warmup_steps = 1}))
      end
      local net, optimizer = both()
      for _ = 1, 2 do
         optimizer:zero_grad()
         loss(net, mine(x), mine(y)):backward()
         optimizer:step()
      end
      near(net:parameters(), model:parameters())
      local state = optimizer:state_dict()
      check(2, state.step)
      local _, fresh = both()
      fresh:load_state_dict(state)
      check(2, fresh.averager.step)
      torch.optim.lr_scheduler.StepLR(fresh, 1)
      refused("PostLocalSGDOptimizer: optim: expected an optimizer", dist.optim.PostLocalSGDOptimizer, {}, {})
      refused("period: expected at least 1, got 0",
         dist.algorithms.model_averaging.averagers.PeriodicModelAverager, 0)
   ]==]))

   it("replays a captured pass whose gradients are averaged after it", case(2, [==[
      local model, sim = DDP(build(1):to "sim"), torch.sim
      local a, b = mine(x):to "sim", mine(y):to "sim"
      refused("all_reduce: not possible while a graph is captured", function()
         sim.graph(sim.Graph(), function() dist.all_reduce(a) end)
      end)
      for _, p in ipairs(model:parameters()) do p.grad = torch.zeros(p.shape, {device = "sim"}) end
      local g = sim.Graph()
      model:no_sync(function()
         sim.graph(g, function() loss(model, a, b):backward() end)
      end)
      for _ = 1, 2 do
         for _, p in ipairs(model:parameters()) do p.grad:zero_() end
         g:replay()
         local there = {}
         for i, p in ipairs(model:parameters()) do
            dist.all_reduce(p.grad, "avg")
            there[i] = p.grad:cpu()
         end
         near(there, expected)
      end
   ]==]))

   it("does not mix the passes of ranks of which one has failed", function()
      for _, kind in ipairs {"first", "last", "comm", "fully_shard"} do
         ranks.ok(2, ("local kind = %q\n"):format(kind) .. [==[
            local nn = torch.nn
            torch.manual_seed(1)
            local net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
            local fails = false
            local function fail(x) if fails then error("on purpose", 0) end return x end
            local model = net
            if kind == "fully_shard" then
               dist.fsdp.fully_shard(net)
            else
               if kind == "first" then net[3].weight:register_hook(fail) end
               if kind == "last" then net[1].weight:register_hook(fail) end
               model = nn.parallel.DistributedDataParallel(net)
               if kind == "comm" then
                  model:register_comm_hook(nil, function(_, bucket)
                     fail()
                     return dist.all_reduce(bucket:buffer(), "avg", {async_op = true})
                  end)
               end
            end
            local function pass()
               local y = model(torch.ones(2, 4))
               if kind == "fully_shard" then y:register_hook(fail) end
               y:sum():backward()
            end
            pass()
            fails = true -- the hook fails on all ranks; otherwise some ranks would wait for the others' calls
            refused("on purpose", pass)
            fails = false
            pass()
            fails = rank == 0
            if rank == 0 then refused("on purpose", pass) end
            fails = false
            refused("ranks make different calls", pass)
         ]==], {breaks = true})
      end
   end)

   it("refuses models that differ between ranks, and gradients that cannot be averaged", case(2, [==[
      refused("device_ids: expected one device, the module's, got 2; nn.DataParallel takes several",
         DDP, nn.Linear(2, 2), {device_ids = {0, 1}})
      refused("device_ids: expected the device of the module's parameters, got sim:1, but weight is " ..
         "on cpu", DDP, nn.Linear(2, 2), {device_ids = {"sim:1"}})
      refused("parameter 1 is weight (2x" .. rank + 2 .. ", float32) here, but weight (2x" ..
         3 - rank .. ", float32) on rank " .. 1 - rank, DDP, nn.Linear(rank + 2, 2))
      refused("no parameter requires a gradient", DDP, nn.Tanh())
      refused("module: expected a module, got 1", DDP, 1)
      refused("unknown option bucket_cap", DDP, nn.Linear(1, 1), {bucket_cap = 1})
   ]==]))
end)

describe("SyncBatchNorm", function()
   it("normalises by all ranks' batches, whose sizes may differ", ranks:case(2, [==[
      local nn = torch.nn
      torch.manual_seed(1)
      local x = torch.randn(9, 3, 4)
      local w = torch.randn(9, 3, 4)
      local whole, mine = x:clone():requires_grad_(), nil
      local plain = nn.BatchNorm1d(3)
      local sync = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)))
      check("nn.SyncBatchNorm", torch.type(sync[1]))
      local from, n = rank == 0 and 1 or 4, rank == 0 and 3 or 6
      mine = x:narrow(1, from, n):clone():requires_grad_()
      local expected = plain(whole)
      ;(expected * w):sum():backward()
      local got = sync(mine)
      ;(got * w:narrow(1, from, n)):sum():backward()
      local function close(a, b) assert((a - b):abs():max():item() < 1e-5) end
      close(got, expected:narrow(1, from, n))
      close(mine.grad, whole.grad:narrow(1, from, n))
      close(sync[1].running_mean, plain.running_mean)
      close(sync[1].running_var, plain.running_var)
      local grad = sync[1].weight.grad
      dist.all_reduce(grad)
      close(grad, plain.weight.grad)
      sync:evaluate() plain:evaluate()
      close(sync(x), plain(x))
   ]==]))

   it("keeps the digits of a variance that is small beside the mean, and takes an empty batch", ranks:case(2, [==[
      local nn = torch.nn
      torch.manual_seed(2)
      local x = torch.randn(12, 3, {dtype = "float64"})
      local w = torch.randn(12, 3, {dtype = "float64"})
      for _, split in ipairs {5, 0} do
         local whole = x:clone():requires_grad_()
         local expected = nn.BatchNorm1d(3, {dtype = "float64"})(whole)
         ;(expected * w):sum():backward()
         local function part(t) return rank == 0 and t:narrow(1, 1, split) or t:narrow(1, split + 1, 12 - split) end
         local sync = nn.SyncBatchNorm(3)
         local mine = part((x + 4096):float()):requires_grad_()
         local got = sync(mine)
         ;(got * part(w)):sum():backward()
         -- 4096 has 11 more binary digits than x, so that 2^-12 of x's digits are lost when it is added
         local function close(a, b) assert(a:numel() == 0 or (a - b):abs():max():item() < 3e-3) end
         close(got, part(expected))
         close(mine.grad, part(whole.grad))
         close(sync.running_var, x:var(1) * 0.1 + 0.9)
         close(sync.running_mean / 10, x:mean(1) * 0.01 + 40.96)
      end
   ]==]))
end)
