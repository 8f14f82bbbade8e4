-- gpt.lua - defines a GPT of some layers, its batches, and the plan by which its layers are split over tensor parallel
-- ranks.

nn, F = torch.nn, torch.nn.functional
tp, pipe, fsdp = dist.tensor.parallel, dist.pipelining, dist.fsdp
width, heads, layers, vocab, context = 16, 4, 4, 24, 8
Block = torch.class("Block", nn.Module)

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

GPT = torch.class("GPT", nn.Module)

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

function batch(step)
   torch.manual_seed(100 + step)
   local start = torch.randint(1, vocab + 1, {8, 1})
   local row = (start + torch.arange(0, context + 1) * 5) % vocab + 1
   return row:narrow(2, 1, context), row:narrow(2, 2, context)
end

function plan(part)
   local list = {["blocks.*.qkv"] = tp.ColwiseParallel(), ["blocks.*.o"] = tp.RowwiseParallel(),
      ["blocks.*.mlp.1"] = tp.ColwiseParallel(), ["blocks.*.mlp.3"] = tp.RowwiseParallel()}
   if part.tokens then list.tokens = tp.RowwiseParallel() end
   if part.head then list.head = tp.ColwiseParallel() end
   return list
end
