-- zero.lua - defines a model, a batch and a training step.

nn = torch.nn
Zero = dist.optim.ZeroRedundancyOptimizer

function build()
   torch.manual_seed(1)
   return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
end

torch.manual_seed(2)
x, y = torch.randn(8, 4), torch.randn(8, 2)

function step(model, optimizer)
   optimizer:zero_grad()
   ;((model(x) - y) ^ 2):mean():backward()
   optimizer:step()
end

function same(a, b)
   for i, p in ipairs(a:parameters()) do assert(p:equal(b:parameters()[i]), "parameter " .. i) end
end
