-- pipelining.lua - defines a model of blocks, a batch, and a training of a pipeline that is compared with the training
-- of the whole model.

nn, F = torch.nn, torch.nn.functional
pipe = dist.pipelining

function build(blocks)
   torch.manual_seed(3)
   local model = nn.Sequential()
   for _ = 1, blocks do model:add(nn.Sequential(nn.Linear(6, 6), nn.Tanh())) end
   return model
end

torch.manual_seed(5)
x, y = torch.randn(8, 6), torch.randn(8, 6)
LIMIT = 1e-6

function train(model, stages, schedule, steps)
   local alone = build(#model)
   local params = {}
   for _, s in ipairs(stages) do
      for _, p in ipairs(s.submodule:parameters()) do params[#params + 1] = p end
   end
   local mine = torch.optim.Adam(params, {lr = 0.01})
   local whole = torch.optim.Adam(alone:parameters(), {lr = 0.01})
   for _ = 1, steps do
      mine:zero_grad() whole:zero_grad()
      local out = alone(x)
      local expected = F.mse_loss(out, y)
      expected:backward()
      local losses = {}
      local first = stages[1].is_first
      local last = stages[#stages].is_last
      local o = {target = last and y or nil, losses = losses}
      local got
      if first then got = schedule:step(x, o) else got = schedule:step(o) end
      if last then
         near(got, out)
         near(torch.stack(losses):mean(), expected)
      else
         check(nil, got)
      end
      for _, s in ipairs(stages) do
         local theirs = alone[s.stage_index + 1]:parameters()
         for i, p in ipairs(s.submodule:parameters()) do near(p.grad, theirs[i].grad) end
      end
      mine:step() whole:step()
   end
   if stages[1].is_first then schedule:eval(x) else
      local out = schedule:eval()
      if stages[#stages].is_last then near(out, alone(x), 1e-5) end
   end
end
