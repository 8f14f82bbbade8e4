-- DistributedDataParallel. Reference values: the same model in one process with the whole batch.

local ranks = require "spec.dist.ranks"

-- A model of some layers, a batch of 8, and its gradients in one process; each rank's part.
local setting = [==[
   local nn = torch.nn
   local DDP = nn.parallel.DistributedDataParallel
   local function build(seed)
      torch.manual_seed(seed)
      return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(),
         nn.Linear(16, 3))
   end
   torch.manual_seed(7)
   local x, y = torch.randn(8, 5), torch.randn(8, 3)
   local part = 8 // size
   local function mine(t) return t:narrow(1, rank * part + 1, part) end
   local function loss(model, a, b) return ((model(a) - b) ^ 2):mean() end
   local function grads(model)
      local list = {}
      for i, p in ipairs(model:parameters()) do list[i] = p.grad:clone() end
      return list
   end
   local function near(a, b, limit)
      for i = 1, #b do
         local off = (a[i] - b[i]):abs():max():item()
         assert(off <= (limit or 1e-6), "gradient " .. i .. " is off by " .. off)
      end
   end
   local function same_everywhere(list)
      for i, t in ipairs(list) do
         local most = t:clone()
         dist.all_reduce(most, "max")
         assert(most:equal(t), "gradient " .. i .. " differs between ranks")
      end
   end
   local single = build(1)
   loss(single, x, y):backward()
   local expected = grads(single)
]==]

local function run(n, code)
   return ranks.ok(n, (setting:gsub("%s*\n%s*", " ")) .. code)
end

describe("DistributedDataParallel", function()
   it("gives the gradients of the whole batch, the same bits on all ranks", function()
      for _, n in ipairs {2, 4} do
         run(n, [==[
            local model = DDP(build(rank + 1)) -- all get rank 0's parameters
            for step = 1, 3 do
               model:zero_grad {set_to_none = step ~= 3}
               loss(model, mine(x), mine(y)):backward()
               near(grads(model), expected)
               same_everywhere(grads(model))
            end
         ]==])
      end
   end)

   it("does so with many small buckets, whose views the gradients are", function()
      run(2, [==[
         local model = DDP(build(1), {bucket_cap_mb = 1e-4})
         assert(#model.buckets > 1)
         for _ = 1, 2 do
            model:zero_grad()
            loss(model, mine(x), mine(y)):backward()
         end
         near(grads(model), expected)
         local view = model.place[1][1].views[model.place[1][2]]
         check(view:data_ptr(), model.module[1].weight.grad:data_ptr())
      ]==])
   end)

   it("trains all ranks alike", function()
      run(2, [==[
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
      ]==])
   end)

   it("adds up without averaging under no_sync", function()
      run(2, [==[
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
      ]==])
   end)

   it("names parameters that got no gradient, or takes them as zeros when asked to", function()
      run(2, [==[
         local Half = torch.class("Half", nn.Module)
         function Half:__init()
            nn.Module.__init(self)
            self.used = nn.Linear(2, 2)
            self.maybe = nn.Linear(2, 2)
            self.never = nn.Linear(2, 2)
         end
         function Half:forward(t, also)
            local out = self.used(t)
            if also then out = out + self.maybe(t) end
            return out
         end
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
      ]==])
   end)

   it("gives rank 0's buffers to all", function()
      run(2, [==[
         local model = DDP(nn.BatchNorm1d(2))
         model(torch.full({4, 2}, rank + 1.0)):sum():backward()
         model(torch.full({4, 2}, 1.0)):sum():backward()
         check({0.1 * 0.9 + 0.1, 0.1 * 0.9 + 0.1}, model.module.running_mean:double():mul(1e6):round():div(1e6))
      ]==])
   end)

   it("takes hooks that send less", function()
      run(2, [==[
         local hooks = dist.algorithms.ddp_comm_hooks
         for _, row in ipairs {{"allreduce_hook", 1e-6}, {"fp16_compress_hook", 1e-3},
            {"bf16_compress_hook", 1e-2}} do
            local model = DDP(build(1))
            model:register_comm_hook(nil, hooks.default_hooks[row[1]])
            loss(model, mine(x), mine(y)):backward()
            near(grads(model), expected, row[2])
            same_everywhere(grads(model))
         end
      ]==])
   end)

   it("approximates by PowerSGD, exactly where the rank suffices", function()
      run(2, [==[
         local power = dist.algorithms.ddp_comm_hooks.powerSGD_hook
         local function gradient(weight_rank, steps)
            torch.manual_seed(3)
            local layer = nn.Linear(32, 32, {bias = false})
            local model = DDP(layer)
            model:register_comm_hook(power.PowerSGDState {matrix_approximation_rank = weight_rank,
               start_powerSGD_iter = 1}, power.powerSGD_hook)
            -- a gradient of rank 2: two inputs, the same on all ranks
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
         -- with rank 1 each step lacks something, but what is left out comes later
         local one, whole = gradient(1, 2)
         local many = gradient(1, 60)
         assert((many - whole):norm():item() < 0.3 * (one - whole):norm():item())
      ]==])
   end)

   it("takes uneven inputs within Join", function()
      run(2, [==[
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
         -- both: -1; then rank 1 alone, its gradient halved, two times; rank 0 gets its weights
         check({{-2.0, -2.0}}, model.module.weight)
      ]==])
   end)

   it("runs on the simulated device with the same bits", function()
      run(2, [==[
         local model = DDP(build(1):to "sim")
         loss(model, mine(x):to "sim", mine(y):to "sim"):backward()
         local there = {}
         for i, g in ipairs(grads(model)) do there[i] = g:cpu() end
         near(there, expected)
         same_everywhere(there)
      ]==])
   end)

   it("refuses models that differ, and what cannot be averaged", function()
      run(2, [==[
         refused("parameter 1 is weight (2x" .. rank + 2 .. ", float32) here, but weight (2x" ..
            3 - rank .. ", float32) on rank " .. 1 - rank, DDP, nn.Linear(rank + 2, 2))
         refused("no parameter requires a gradient", DDP, nn.Tanh())
         refused("module: expected a module, got 1", DDP, 1)
         refused("unknown option bucket_cap", DDP, nn.Linear(1, 1), {bucket_cap = 1})
      ]==])
   end)
end)

describe("SyncBatchNorm", function()
   it("normalises by all ranks' batches, whose sizes may differ", function()
      ranks.ok(2, [==[
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
      ]==])
   end)
end)
