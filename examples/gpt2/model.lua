-- model.lua - GPT-2: token and position embeddings, blocks of causal attention and a small network,
-- and the token embedding once more as the last layer.
local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional

local Block = torch.class("gpt2.Block", nn.Module)

-- Weights are normal with deviation 0.02, those that end in the residual stream smaller with depth.
local function linear(inputs, outputs, deviation)
   local layer = nn.Linear(inputs, outputs)
   nn.init.normal_(layer.weight, 0, deviation)
   nn.init.zeros_(layer.bias)
   return layer
end

function Block:__init(o)
   nn.Module.__init(self)
   self.heads, self.dropout = o.heads, o.dropout
   local last = 0.02 / math.sqrt(2 * o.layers)
   self.ln_1 = nn.LayerNorm(o.width)
   self.qkv = linear(o.width, 3 * o.width, 0.02)
   self.projection = linear(o.width, o.width, last)
   self.ln_2 = nn.LayerNorm(o.width)
   self.mlp = nn.Sequential(linear(o.width, 4 * o.width, 0.02), nn.GELU({approximate = "tanh"}),
      linear(4 * o.width, o.width, last))
end

-- x: (batch, time, width)
function Block:attend(x)
   local batch, time, width = x:size(1), x:size(2), x:size(3)
   local qkv = self.qkv(x):view(batch, time, 3, self.heads, width // self.heads)
   local q, k, v = table.unpack(qkv:permute(3, 1, 4, 2, 5):unbind(1))
   local y = F.scaled_dot_product_attention(q, k, v, {
      is_causal = true, dropout_p = self.is_training and self.dropout or 0.0,
   })
   return self.projection(y:transpose(2, 3):reshape(batch, time, width))
end

function Block:forward(x)
   local p = self.dropout
   x = x + F.dropout(self:attend(self.ln_1(x)), p, self.is_training)
   return x + F.dropout(self.mlp(self.ln_2(x)), p, self.is_training)
end

local GPT2 = torch.class("gpt2.GPT2", nn.Module)

--- o: vocab, context (the most tokens at once), layers, heads, width, dropout; checkpoint: blocks
--- keep only their inputs and compute the rest again in the backward pass.
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
end

--- tokens: (batch, time), from 1. Logits (batch, time, vocab); with the tokens that follow, the
--- mean cross-entropy instead.
function GPT2:forward(tokens, targets)
   local o = self.options
   local places = torch.arange(1, tokens:size(2) + 1, {device = tokens.device})
   local x = self.tokens(tokens) + self.places(places)
   x = F.dropout(x, o.dropout, self.is_training)
   for _, block in ipairs(self.blocks) do
      x = o.checkpoint and self.is_training and torch.utils.checkpoint(block, x) or block(x)
   end
   local logits = F.linear(self.ln(x), self.tokens.weight)
   if not targets then return logits end
   return F.cross_entropy(logits:view(-1, o.vocab), targets:reshape(-1))
end

--- Two groups for an optimizer: weight decay is for matrices.
function GPT2:groups(weight_decay)
   local matrices, others = {}, {}
   for _, p in ipairs(self:parameters()) do
      table.insert(p:dim() >= 2 and matrices or others, p)
   end
   return {{params = matrices, weight_decay = weight_decay}, {params = others, weight_decay = 0.0}}
end

--- So many tokens more, drawn from the `top` most probable ones at a temperature.
function GPT2:sample(tokens, count, temperature, top)
   self:evaluate()
   local _ <close> = torch.no_grad()
   for _ = 1, count do
      local from = math.max(1, tokens:size(2) - self.options.context + 1)
      local logits = self:forward(tokens[{{}, {from, -1}}])[{{}, -1}]:float() / temperature
      local values, numbers = logits:topk(math.min(top, logits:size(2)))
      local drawn = torch.multinomial(values:softmax(2), 1)
      tokens = torch.cat({tokens, numbers:gather(2, drawn)}, 2)
   end
   self:training()
   return tokens
end

return GPT2
