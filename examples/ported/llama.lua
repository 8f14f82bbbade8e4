-- A small Llama (Touvron et al. 2023: RMSNorm, rotary positions, grouped queries, SwiGLU) learns to
-- count, and then counts further with a cache of keys and values:
--
--    tlua examples/ported/llama.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("llama.lua", "Learns to count.")
parser:option("--steps", "training steps", 120)
parser:option("--dim", "width of the model", 64)
parser:option("--layers", "blocks", 2)
parser:option("--length", "characters of a text", 32)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local heads, kv_heads, vocabulary = 4, 2, 11 -- the vocabulary has ten digits and a blank
local head_dim = opt.dim // heads

-- Returns cos and sin of position * frequency; each is (length, head_dim / 2).
local function precompute_freqs(length)
   local freqs = 1.0 / 10000.0 ^ (torch.arange(0, head_dim, 2) / head_dim)
   local angles = torch.outer(torch.arange(0, length):float(), freqs)
   return angles:cos(), angles:sin()
end
local all_cos, all_sin = precompute_freqs(256)

-- Rotates pairs of adjacent features; x is (N, length, heads, head_dim).
local function apply_rotary(x, cos, sin)
   local pairs_ = x:unflatten(-1, {-1, 2})
   local a, b = pairs_:select(-1, 1), pairs_:select(-1, 2)
   cos, sin = cos:unsqueeze(2), sin:unsqueeze(2)
   return torch.stack({a * cos - b * sin, a * sin + b * cos}, -1):flatten(-2)
end

local Attention, parent = torch.class("Attention", nn.Module)

function Attention:__init()
   parent.__init(self)
   self.wq = nn.Linear(opt.dim, heads * head_dim, {bias = false})
   self.wk = nn.Linear(opt.dim, kv_heads * head_dim, {bias = false})
   self.wv = nn.Linear(opt.dim, kv_heads * head_dim, {bias = false})
   self.wo = nn.Linear(heads * head_dim, opt.dim, {bias = false})
end

function Attention:forward(x, start, cache)
   local n, length = x:size(1), x:size(2)
   local cos, sin = all_cos:narrow(1, start, length), all_sin:narrow(1, start, length)
   local q = apply_rotary(self.wq(x):view(n, length, heads, head_dim), cos, sin)
   local k = apply_rotary(self.wk(x):view(n, length, kv_heads, head_dim), cos, sin)
   local v = self.wv(x):view(n, length, kv_heads, head_dim)
   if cache then
      if cache.k then k, v = torch.cat({cache.k, k}, 2), torch.cat({cache.v, v}, 2) end
      cache.k, cache.v = k, v
   end
   q, k, v = q:transpose(2, 3), k:transpose(2, 3), v:transpose(2, 3)
   local out = F.scaled_dot_product_attention(q, k, v, {is_causal = length > 1, enable_gqa = true})
   return self.wo(out:transpose(2, 3):reshape(n, length, -1))
end

local FeedForward = torch.class("FeedForward", nn.Module)

function FeedForward:__init(hidden)
   nn.Module.__init(self)
   self.w1 = nn.Linear(opt.dim, hidden, {bias = false})
   self.w2 = nn.Linear(hidden, opt.dim, {bias = false})
   self.w3 = nn.Linear(opt.dim, hidden, {bias = false})
end

function FeedForward:forward(x) return self.w2(F.silu(self.w1(x)) * self.w3(x)) end

local Block = torch.class("Block", nn.Module)

function Block:__init()
   nn.Module.__init(self)
   self.attention, self.feed_forward = Attention(), FeedForward(3 * opt.dim)
   self.attention_norm, self.ffn_norm = nn.RMSNorm(opt.dim), nn.RMSNorm(opt.dim)
end

function Block:forward(x, start, cache)
   x = x + self.attention(self.attention_norm(x), start, cache)
   return x + self.feed_forward(self.ffn_norm(x))
end

local Llama = torch.class("Llama", nn.Module)

function Llama:__init()
   nn.Module.__init(self)
   self.tok_embeddings = nn.Embedding(vocabulary, opt.dim)
   self.layers = nn.ModuleList()
   for _ = 1, opt.layers do self.layers:append(Block()) end
   self.norm = nn.RMSNorm(opt.dim)
   self.output = nn.Linear(opt.dim, vocabulary, {bias = false})
end

function Llama:forward(tokens, start, caches)
   local x = self.tok_embeddings(tokens)
   for i, layer in ipairs(self.layers) do x = layer(x, start or 1, caches and caches[i]) end
   return self.output(self.norm(x))
end

-- Encodes a text such as "17 18 19 20 ...". A digit becomes its value + 1, and a blank becomes 11.
local function encode(text)
   local ids = {}
   for character in text:gmatch "." do
      ids[#ids + 1] = character == " " and 11 or tonumber(character) + 1
   end
   return ids
end

local function batch(n)
   local texts = {}
   for i = 1, n do
      local number = torch.randint(10, 90, {1}):item()
      local words = {}
      for k = 0, opt.length // 2 do words[#words + 1] = tostring(number + k) end
      texts[i] = encode(table.concat(words, " "):sub(1, opt.length + 1))
   end
   local tokens = torch.tensor(texts)
   return tokens[{{}, {1, -2}}], tokens[{{}, {2, -1}}]
end

local model = Llama()
local optimizer = optim.AdamW(model:parameters(), {lr = 4e-3, weight_decay = 0.01})
for step = 1, opt.steps do
   local input, target = batch(16)
   optimizer:zero_grad()
   local loss = F.cross_entropy(model(input):flatten(1, 2), target:flatten())
   loss:backward()
   optimizer:step()
   if step % 40 == 0 then print(("step %3d  loss %.4f"):format(step, loss:item())) end
end

-- Continues the count from 41, one character at a time. The cache has the keys and values of all
-- previous characters.
model:eval()
local _ <close> = torch.no_grad()
local caches = {}
for i = 1, opt.layers do caches[i] = {} end
local text = "41 42 43 "
local scores, position = model(torch.tensor {encode(text)}, 1, caches), #text
for _ = 1, 12 do
   local id = scores[{1, -1}]:argmax():item()
   text = text .. (id == 11 and " " or tostring(id - 1))
   position = position + 1
   scores = model(torch.tensor {{id}}, position, caches)
end
print(text)
