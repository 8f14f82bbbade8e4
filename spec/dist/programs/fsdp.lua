-- fsdp.lua - defines a model of blocks, a batch of 8 samples, and the part of the batch that each rank trains on.

dofile(PROGRAMS .. "/batch.lua")
fsdp = dist.fsdp
fully_shard = fsdp.fully_shard
Block = torch.class("Block", nn.Module)

function Block:__init(w)
   nn.Module.__init(self)
   self.ln, self.a, self.b = nn.LayerNorm(w), nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
end

function Block:forward(x) return x + self.b(self.a(self.ln(x)):tanh()) end
function build(w, n)
   torch.manual_seed(1)
   local model = nn.Sequential(nn.Linear(5, w))
   for _ = 1, n do model:add(Block(w)) end
   return model:add(nn.Linear(w, 3))
end

function shard(model, options)
   for i = 2, #model - 1 do fully_shard(model[i], options) end
   return fully_shard(model, options)
end

function reset(model, seed)
   torch.manual_seed(seed)
   for _, m in ipairs(model:modules()) do
      if m.reset_parameters then m:reset_parameters() end
   end
end

function mean(l)
   l = l:detach():clone()
   dist.all_reduce(l, "avg")
   return l:item()
end

full = torch.distributed.fsdp.full_tensor
LIMIT = 1e-6
