-- checkpoint.lua - defines a model, ways to split it over ranks, and training steps.

nn, F = torch.nn, torch.nn.functional
dcp, tp = dist.checkpoint, dist.tensor.parallel

function build(seed)
   torch.manual_seed(seed)
   return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.BatchNorm1d(10), nn.Linear(10, 6), nn.Linear(6, 3))
end

torch.manual_seed(2)
x, y = torch.randn(8, 6), torch.randn(8, 3)

function step(model, adam)
   adam:zero_grad()
   ;((model(x) - y) ^ 2):mean():backward()
   adam:step()
end

function split(model, kind)
   if kind == "tp" or kind == "both" then
      local mesh = kind == "tp" and dist.init_device_mesh("cpu", {size}) or
         dist.init_device_mesh("cpu", {size // 2, 2}, {mesh_dim_names = {"dp", "tp"}})
      tp.parallelize_module(model, kind == "tp" and mesh or mesh.tp,
         {["4"] = tp.ColwiseParallel(), ["5"] = tp.RowwiseParallel()})
      if kind == "both" then dist.fsdp.fully_shard(model, {mesh = mesh.dp}) end
   elseif kind == "ddp" then
      return nn.parallel.DistributedDataParallel(model)
   elseif kind == "fsdp" then
      dist.fsdp.fully_shard(model[1])
      dist.fsdp.fully_shard(model)
   end
   return model
end

function make(seed, kind)
   local model = split(build(seed), kind)
   if kind == "zero" then
      return model, dist.optim.ZeroRedundancyOptimizer(model:parameters(),
         {optimizer_class = torch.optim.AdamW, lr = 0.01})
   end
   return model, torch.optim.AdamW(model:parameters(), {lr = 0.01})
end

function made_on_meta(seed, kind)
   local model = split(torch.default_device("meta", build, seed), kind)
   refused("1.weight is on the meta device and has no memory: make it by module:to_empty",
      dcp.load, {model = model}, {checkpoint_id = ID})
   model:to_empty {device = "cpu"}
   return model, torch.optim.AdamW(model:parameters(), {lr = 0.01})
end
