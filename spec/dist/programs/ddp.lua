-- ddp.lua - defines a model of some layers, a batch of 8 samples, the part of the batch that each rank trains on, and
-- the gradients that one process computes from the whole batch.

dofile(PROGRAMS .. "/batch.lua")
DDP = nn.parallel.DistributedDataParallel

function build(seed)
   torch.manual_seed(seed)
   return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
end

Half = torch.class("Half", nn.Module)

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

function grads(model)
   local list = {}
   for i, p in ipairs(model:parameters()) do list[i] = p.grad:clone() end
   return list
end

function near(a, b, limit)
   for i = 1, #b do
      local off = (a[i] - b[i]):abs():max():item()
      assert(off <= (limit or 1e-6), "gradient " .. i .. " is off by " .. off)
   end
end

function same_everywhere(list)
   for i, t in ipairs(list) do
      local most = t:clone()
      dist.all_reduce(most, "max")
      assert(most:equal(t), "gradient " .. i .. " differs between ranks")
   end
end

single = build(1)
loss(single, x, y):backward()
expected = grads(single)
