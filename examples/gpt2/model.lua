-- model.lua - GPT-2: token and position embeddings, blocks that consist of causal attention and a
-- small network, and a last layer that shares the matrix of the token embedding.
local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional

local Block = torch.class("gpt2.Block", nn.Module)

-- Returns a linear layer. The weights are normal with standard deviation 0.02; layers that add to
-- the residual stream get smaller weights in deeper models.
local function linear(inputs, outputs, deviation)
   local layer = nn.Linear(inputs, outputs)
   nn.init.normal_(layer.weight, 0, deviation)
   nn.init.zeros_(layer.bias)
   return layer
end

function Block:__init(o)
   nn.Module.__init(self)
   self.heads, self.dropout, self.by_heads = o.heads, o.dropout, o.by_heads
   local last = 0.02 / math.sqrt(2 * o.layers)
   self.ln_1 = nn.LayerNorm(o.width)
   self.qkv = linear(o.width, 3 * o.width, 0.02)
   self.projection = linear(o.width, o.width, last)
   self.ln_2 = nn.LayerNorm(o.width)
   self.mlp = nn.Sequential(linear(o.width, 4 * o.width, 0.02), nn.GELU({approximate = "tanh"}),
      linear(4 * o.width, o.width, last))
end

-- Projects x (batch, time, width). Returns the queries, keys and values, each (batch, heads, time,
-- width of a head).
function Block:look_up(x)
   local batch, time, width = x:size(1), x:size(2), x:size(3) // self.heads
   local qkv = self.qkv(x)
   if self.by_heads then -- the dimension of size -1 has the heads that this process computes
      return table.unpack(qkv:view(batch, time, -1, 3, width):permute(4, 1, 3, 2, 5):unbind(1))
   end
   qkv = qkv:view(batch, time, 3, self.heads, width)
   return table.unpack(qkv:permute(3, 1, 4, 2, 5):unbind(1))
end

function Block:attend(x)
   local q, k, v = self:look_up(x)
   local y = F.scaled_dot_product_attention(q, k, v, {
      is_causal = true, dropout_p = self.training and self.dropout or 0.0,
   })
   return self.projection(y:transpose(2, 3):flatten(3))
end

function Block:forward(x)
   local p = self.dropout
   local y, sum = self.ln_2(F.dropout(self:attend(self.ln_1(x)), p, self.training), x)
   return F.dropout_add(self.mlp(y), sum, p, self.training)
end

local GPT2 = torch.class("gpt2.GPT2", nn.Module)

--- Makes the model. o: vocab, context (the largest number of tokens at once), layers, heads, width,
--- dropout; checkpoint: blocks keep only their inputs, and recompute their intermediate results in
--- the backward pass. by_heads: the rows of the first matrix are ordered by head, so that heads can
--- be split over processes. untied: the last layer has a matrix of its own, so that the first and
--- the last layer can be on different processes.
function GPT2:__init(o)
   nn.Module.__init(self)
   self.options = o
   self.tokens = nn.Embedding(o.vocab, o.width)
   self.places = nn.Embedding(o.context, o.width)
   nn.init.normal_(self.tokens.weight, 0, 0.02)
   nn.init.normal_(self.places.weight, 0, 0.01)
   self.blocks = nn.ModuleList()
   for _ = 1, o.layers do self.blocks:append(Block(o)) end
   self.ln = nn.LayerNorm(o.width)
   if not o.untied then return end
   self.head = nn.Linear(o.width, o.vocab, {bias = false})
   nn.init.normal_(self.head.weight, 0, 0.02)
end

--- Keeps only the layers of pipeline stage `index` (from 0) out of `count`.
function GPT2:part(index, count)
   local n = self.options.layers // count
   local blocks = nn.ModuleList()
   for i = 1, n do blocks:append(self.blocks[index * n + i]) end
   self.blocks, self.before = blocks, index * n
   if index > 0 then self.tokens, self.places = nil, nil end
   if index < count - 1 then self.ln, self.head = nil, nil end
   return self
end

--- Returns the modules by their paths in the whole model, for a checkpoint.
function GPT2:modules_by_path()
   local list = {tokens = self.tokens, places = self.places, ln = self.ln, head = self.head}
   list.blocks = {}
   for i, block in ipairs(self.blocks) do list.blocks[(self.before or 0) + i] = block end
   return list
end

local function embed(self, tokens)
   local places = torch.arange(1, tokens:size(2) + 1, {device = tokens.device})
   local x = self.tokens(tokens) + self.places(places)
   return F.dropout(x, self.options.dropout, self.training)
end

--- Computes the model. x has tokens (batch, time), from 1. Returns logits (batch, time, vocab) or,
--- if the next tokens are given, the mean cross-entropy. In a later stage of a pipeline, x is the
--- result of the previous stage.
function GPT2:forward(x, targets)
   local o = self.options
   if self.places then x = embed(self, x) end
   for _, block in ipairs(self.blocks) do
      x = o.checkpoint and self.training and torch.utils.checkpoint(block, x) or block(x)
   end
   if not self.ln then return x end
   local logits = self.head and self.head(self.ln(x)) or F.linear(self.ln(x), self.tokens.weight)
   if not targets then return logits end
   return F.cross_entropy(logits:view(-1, o.vocab), targets:reshape(-1))
end

--- Returns two parameter groups for an optimizer: matrices have weight decay, all others have none.
function GPT2:groups(weight_decay)
   local matrices, others = {}, {}
   for _, p in ipairs(self:parameters()) do
      table.insert(p:dim() >= 2 and matrices or others, p)
   end
   return {{params = matrices, weight_decay = weight_decay}, {params = others, weight_decay = 0.0}}
end

--- Appends `count` tokens, each drawn from the `top` most probable ones at a temperature.
function GPT2:sample(tokens, count, temperature, top)
   self:evaluate()
   local _ <close> = torch.no_grad()
   for _ = 1, count do
      local from = math.max(1, tokens:size(2) - self.options.context + 1)
      local logits = self(tokens[{{}, {from, -1}}])[{{}, -1}]:float() / temperature
      local values, numbers = logits:topk(math.min(top, logits:size(2)))
      local drawn = torch.multinomial(values:softmax(2), 1)
      tokens = torch.cat({tokens, numbers:gather(2, drawn)}, 2)
   end
   self:train()
   return tokens
end

return GPT2
