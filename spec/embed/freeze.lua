-- freeze.lua - frozen models for freeze.c and for spec/bench/frozen.lua. Each entry has a title and a function that
-- returns two functions. `call` makes one call of a frozen model. `check` calls the original model as often, and
-- returns whether its last results equal those of the frozen model bit for bit.

local torch = require "tlua"
local nn = torch.nn

local M = {}

M[1] = {"convnet for digits, one image", function()
   local model = nn.Sequential(nn.Conv2d(1, 16, 3, {padding = 1}), nn.BatchNorm2d(16), nn.ReLU(),
      nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10)):eval()
   local frozen, x = torch.freeze(model), torch.randn(1, 1, 8, 8)
   return function() frozen(x) end, function() return frozen(x):equal(model(x)) end
end}

-- The state that a call returns is an input of the next call.
M[2] = {"step of an LSTM, 64 to 128", function()
   local cell = nn.LSTMCell(64, 128):eval()
   local frozen, x, n = torch.freeze(cell), torch.randn(1, 64), 0
   local state = {torch.zeros(1, 128), torch.zeros(1, 128)}
   local function call()
      state[1], state[2] = frozen(x, state)
      n = n + 1
   end
   return call, function()
      local h, c = torch.zeros(1, 128), torch.zeros(1, 128)
      for _ = 1, n do h, c = cell(x, {h, c}) end
      return h:equal(state[1]) and c:equal(state[2])
   end
end}

local WIDTH <const>, HEADS <const>, LONGEST <const>, WORDS <const> = 64, 4, 64, 50
local HEAD <const> = WIDTH // HEADS

local GPT = torch.class("GPT", nn.Module)

function GPT:__init()
   nn.Module.__init(self)
   self.tokens, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LONGEST, WIDTH)
   self.blocks = nn.ModuleList {}
   for _ = 1, 2 do
      self.blocks:append(nn.ModuleDict {
         before = nn.LayerNorm(WIDTH), qkv = nn.Linear(WIDTH, 3 * WIDTH), out = nn.Linear(WIDTH, WIDTH),
         between = nn.LayerNorm(WIDTH), up = nn.Linear(WIDTH, 4 * WIDTH), down = nn.Linear(4 * WIDTH, WIDTH),
      })
   end
   self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
end

-- Takes one token and its position. `mask` marks the positions that the token attends to, and `cache` has the keys and
-- values of earlier tokens.
function GPT:forward(token, place, mask, cache)
   local x = self.tokens(token) + self.places(place)
   local extended = {}
   for i, block in ipairs(self.blocks) do
      local q, k, v = table.unpack(block.qkv(block.before(x)):chunk(3, 2))
      local keys = cache[i][1]:index_copy(2, place, k:view(HEADS, 1, HEAD))
      local values = cache[i][2]:index_copy(2, place, v:view(HEADS, 1, HEAD))
      extended[i] = {keys, values}
      local y = nn.functional.scaled_dot_product_attention(q:view(HEADS, 1, HEAD), keys, values, {attn_mask = mask})
      x = x + block.out(y:reshape(1, WIDTH))
      x = x + block.down(nn.functional.gelu(block.up(block.between(x))))
   end
   return self.head(self.norm(x)), extended
end

local function empty_cache()
   local cache = {}
   for i = 1, 2 do cache[i] = {torch.zeros(HEADS, LONGEST, HEAD), torch.zeros(HEADS, LONGEST, HEAD)} end
   return cache
end

M[3] = {"token of a GPT with a cache, 2 layers of 64", function()
   local model, token = GPT():eval(), torch.tensor {7}
   local frozen, cache, n, logits = torch.freeze(model), empty_cache(), 0, nil
   local places, masks = {}, {}
   for i = 1, LONGEST do
      places[i] = torch.tensor {i}
      masks[i] = torch.arange(1, LONGEST + 1):le(i):view(1, LONGEST)
   end
   local function call()
      n = n % LONGEST + 1
      logits, cache = frozen(token, places[n], masks[n], cache)
   end
   return call, function()
      local _ <close> = torch.no_grad()
      local own, last = empty_cache(), nil
      for i = 1, n do last, own = model(token, places[i], masks[i], own) end
      return last:equal(logits)
   end
end}

-- Returns a training step, its example input, and options for torch.export_step.
local function training_step()
   torch.manual_seed(3)
   local model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
   local optimizer = torch.optim.AdamW(model:parameters(), {lr = 0.01})
   local input, target = torch.randn(12, 8), torch.randint(1, 5, {12})
   return function(x)
      optimizer:zero_grad()
      local loss = nn.functional.cross_entropy(model(x), target)
      loss:backward()
      optimizer:step()
      return loss:detach()
   end, input, {model = model, optimizer = optimizer}
end

M[4] = {"training step, MLP 8-16-4, batch 12, AdamW", function()
   local step, x, parts = training_step()
   local path = os.tmpname()
   torch.export_step(step, {x}, parts):save(path)
   local frozen, n, loss = torch.freeze(torch.export.load(path)), 0, nil
   os.remove(path)
   local function call()
      loss = frozen(x)
      n = n + 1
   end
   return call, function()
      local own, input = training_step()
      local last
      for _ = 1, n do last = own(input) end
      return last:equal(loss)
   end
end}

return M
