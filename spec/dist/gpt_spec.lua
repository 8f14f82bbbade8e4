-- Tests a GPT on data, tensor and pipeline parallel ranks at once. Reference values: the same model
-- in one process with the whole batch.

local ranks = require "spec.dist.ranks"

-- Defines the model: its embedding, blocks and head; `stage(model, first, last)` returns some
-- blocks.
local setting = [==[
   local nn, F = torch.nn, torch.nn.functional
   local tp, pipe, fsdp = dist.tensor.parallel, dist.pipelining, dist.fsdp
   local width, heads, layers, vocab, context = 16, 4, 4, 24, 8
   local Block = torch.class("Block", nn.Module)
   function Block:__init()
      nn.Module.__init(self)
      self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
      self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
      self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
   end
   function Block:attend(x)
      local qkv = self.qkv(x):view(x:size(1), x:size(2), -1, 3, width // heads)
      local q, k, v = table.unpack(qkv:permute(4, 1, 3, 2, 5):unbind(1))
      local y = F.scaled_dot_product_attention(q, k, v, {is_causal = true})
      return self.o(y:transpose(2, 3):flatten(3))
   end
   function Block:forward(x)
      x = x + self:attend(self.ln_1(x))
      return x + self.mlp(self.ln_2(x))
   end
   local GPT = torch.class("GPT", nn.Module)
   function GPT:__init()
      nn.Module.__init(self)
      torch.manual_seed(1)
      self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(context, width)
      self.blocks = nn.ModuleList()
      for _ = 1, layers do self.blocks:append(Block()) end
      self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, {bias = false})
   end
   function GPT:part(index, count)
      local n = layers // count
      local kept = nn.ModuleList()
      for i = 1, n do kept:append(self.blocks[index * n + i]) end
      self.blocks = kept
      if index > 0 then self.tokens, self.places = nil, nil end
      if index < count - 1 then self.ln, self.head = nil, nil end
      return self
   end
   function GPT:forward(x)
      if self.tokens then x = self.tokens(x) + self.places(torch.arange(1, context + 1)) end
      for _, block in ipairs(self.blocks) do x = block(x) end
      if self.head then x = self.head(self.ln(x)) end
      return x
   end
   local function batch(step)
      torch.manual_seed(100 + step)
      local start = torch.randint(1, vocab + 1, {8, 1})
      local row = (start + torch.arange(0, context + 1) * 5) % vocab + 1
      return row:narrow(2, 1, context), row:narrow(2, 2, context)
   end
   local function plan(part)
      local list = {["blocks.*.qkv"] = tp.ColwiseParallel(), ["blocks.*.o"] = tp.RowwiseParallel(),
         ["blocks.*.mlp.1"] = tp.ColwiseParallel(), ["blocks.*.mlp.3"] = tp.RowwiseParallel()}
      if part.tokens then list.tokens = tp.RowwiseParallel() end
      if part.head then list.head = tp.ColwiseParallel() end
      return list
   end
]==]

local function run(n, code)
   return ranks.ok(n, (setting:gsub("%s*\n%s*", " ")) .. code)
end

describe("a GPT on 2 x 2 x 2 ranks", function()
   for _, kind in ipairs {"fully_shard", "DistributedDataParallel"} do
      it("follows one process for 50 steps: pipeline, " .. kind .. ", tensor parallel", function()
         run(8, [==[
            local kind = "]==] .. kind .. [==["
            local mesh = dist.init_device_mesh("cpu", {2, 2, 2},
               {mesh_dim_names = {"pp", "dp", "tp"}})
            local at, part = mesh.pp:get_local_rank(), mesh.dp:get_local_rank()
            local model = GPT():part(at, 2)
            tp.parallelize_module(model, mesh.tp, plan(model))
            if kind == "fully_shard" then
               for _, block in ipairs(model.blocks) do fsdp.fully_shard(block, {mesh = mesh.dp}) end
               fsdp.fully_shard(model, {mesh = mesh.dp})
            else
               model = nn.parallel.DistributedDataParallel(model,
                  {process_group = mesh.dp:get_group()})
            end
            local stage = pipe.PipelineStage(model, at, 2, {group = mesh.pp:get_group()})
            local schedule = pipe.Schedule1F1B(stage, 2, {loss_fn = function(logits, target)
               return tp.cross_entropy(logits:flatten(1, 2), target:flatten(), mesh.tp)
            end})
            local adam = torch.optim.AdamW(model:parameters(), {lr = 3e-3})
            local alone, other
            if rank == 7 then
               alone = GPT()
               other = torch.optim.AdamW(alone:parameters(), {lr = 3e-3})
            end
            local worst, first, last = 0, nil, nil
            for step = 1, 50 do
               local x, y = batch(step)
               local function mine(t) return t:narrow(1, part * 4 + 1, 4) end
               adam:zero_grad()
               local losses = {}
               if at == 0 then schedule:step(mine(x)) else
                  schedule:step {target = mine(y), losses = losses}
               end
               adam:step()
               if at == 1 then
                  local loss = torch.stack(losses):mean()
                  dist.all_reduce(loss, "avg", mesh.dp:get_group())
                  if rank == 7 then
                     other:zero_grad()
                     local expected = F.cross_entropy(alone(x):flatten(1, 2), y:flatten())
                     expected:backward()
                     other:step()
                     worst = math.max(worst, math.abs(expected:item() - loss:item()))
                     first, last = first or loss:item(), loss:item()
                  end
               end
            end
            if rank == 7 then
               print(("loss %.3f to %.3f, off by %.1e"):format(first, last, worst))
               assert(worst < 1e-5, "the loss is off by " .. worst)
               assert(last < first / 2, "nothing was learnt")
            end
         ]==])
      end)
   end
end)
