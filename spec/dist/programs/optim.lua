-- optim.lua - defines a model, ways to split it over ranks, and a training that compares the split model with an
-- unsplit copy.

nn, optim = torch.nn, torch.optim
placement = require "tlua.distributed.placement"
Zero = dist.optim.ZeroRedundancyOptimizer
tp = dist.tensor.parallel
full = dist.fsdp.full_tensor

function build(bias)
   torch.manual_seed(2)
   return nn.Sequential(nn.Linear(6, 10, {bias = bias}), nn.Tanh(), nn.Linear(10, 4, {bias = bias}))
end

function split(how, model)
   if how == "fully_shard" then
      dist.fsdp.fully_shard(model[1])
      dist.fsdp.fully_shard(model)
   elseif how == "parallel layers" then
      tp.parallelize_module(model, dist.init_device_mesh("cpu", {size}),
         {["1"] = tp.ColwiseParallel(), ["3"] = tp.RowwiseParallel()})
   elseif how == "both" then
      local mesh = dist.init_device_mesh("cpu", {2, 2}, {mesh_dim_names = {"dp", "tp"}})
      tp.parallelize_module(model, mesh.tp, {["1"] = tp.ColwiseParallel(), ["3"] = tp.RowwiseParallel()})
      dist.fsdp.fully_shard(model, {mesh = mesh.dp})
   end
   return model
end

function train(how, bias, make, options)
   local alone, model = build(bias), split(how, build(bias))
   local mine = make(model:parameters(), how)
   local whole = make(alone:parameters())
   local theirs = alone:parameters()
   for step = 1, 4 do
      for i, p in ipairs(model:parameters()) do
         theirs[i].grad = torch.randn(theirs[i].shape)
         p.grad = placement.part(p, theirs[i].grad):clone()
      end
      local _, norm = mine:step(options)
      local _, expected = whole:step(options)
      if expected then near(norm, expected, 1e-5, "the norm") end
      for i, p in ipairs(model:parameters()) do
         near(full(p), theirs[i], 1e-6, how .. ", step " .. step .. ", parameter " .. i)
      end
   end
end
