-- experts.lua - defines a mixture of experts, and the function `plain`, which computes the reference values: it calls
-- the experts of each position one by one.

nn = torch.nn
MoE = dist.tensor.experimental.MixtureOfExperts
mesh = dist.init_device_mesh("cpu", {size})

function plain(router, experts, x, k)
   local out = {}
   for i = 1, #x do
      local scores = router(x[i]):softmax(-1)
      local best, which = scores:topk(k)
      best = best / best:sum()
      local sum = 0
      for j = 1, k do sum = sum + experts[which[j]:item()](x[{{i, i}}]) * best[j] end
      out[i] = sum
   end
   return torch.cat(out)
end

function build(experts, k, seed)
   torch.manual_seed(seed)
   return MoE(6, 8, experts, {top_k = k, mesh = mesh})
end
