-- A small GPT learns the text of tlua's own sources, letter by letter, and then writes text:
--
--    tlua examples/gpt.lua
--    tlua examples/gpt.lua --steps 2000 --write 1000 --prompt "local function "
--    tlua examples/gpt.lua --text FILE
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("gpt.lua", "Learns to write Lua from Lua.")
parser:option("--text", "the file to learn from; by default these examples and parts of tlua", "")
parser:option("--steps", "steps of training", 500)
parser:option("--batch", "pieces of text in a batch", 16)
parser:option("--context", "letters that it sees at a time", 64)
parser:option("--width", "numbers that stand for a letter", 96)
parser:option("--layers", "layers", 3)
parser:option("--heads", "attention heads in each layer", 4)
parser:option("--lr", "learning rate of AdamW at its highest", 2e-3)
parser:option("--write", "how many letters to write", 400)
parser:option("--prompt", "what to go on from", "\nlocal function ")
parser:option("--temperature", "0: always the likeliest letter, 1: as it has learnt", 0.7)
parser:option("--seed", "what the random numbers start from", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Text: each byte that occurs is a class ---------------------------------------------------------

local function read(path)
   local file <close> = assert(io.open(path))
   return file:read "a"
end

local text = ""
if opt.text ~= "" then
   text = read(opt.text)
else
   for name in ([[nn/modules/Module nn/modules/Linear nn/modules/Conv nn/modules/RNN
      nn/modules/Transformer nn/modules/MultiheadAttention nn/hooks
      optim/Optimizer optim/Adam optim/SGD data/DataLoader data/samplers class args
      autograd/functional utils/options]]):gmatch "%S+" do
      text = text .. read(here .. "/../lua/tlua/" .. name .. ".lua")
   end
end
text = text:gsub("[\x80-\xFF]+", "?")

local letters, class_of = {}, {}
for byte = 0, 255 do
   if text:find(string.char(byte), 1, true) then
      letters[#letters + 1] = string.char(byte)
      class_of[byte] = #letters
   end
end

local function encode(piece)
   local list = {}
   for i = 1, #piece do list[i] = class_of[piece:byte(i)] or 1 end
   return torch.tensor(list)
end

local data = encode(text)
local train_count = data:size(1) * 9 // 10
local train, test = data[{{1, train_count}}], data[{{train_count + 1, -1}}]

-- Returns inputs (N, context) and targets. The target of each letter is the letter that follows it.
local function batch(from)
   local inputs, targets = {}, {}
   for i = 1, opt.batch do
      local start = torch.randint(1, from:size(1) - opt.context, {1}):item()
      inputs[i] = from:narrow(1, start, opt.context)
      targets[i] = from:narrow(1, start + 1, opt.context)
   end
   return torch.stack(inputs), torch.stack(targets)
end

-- Model ------------------------------------------------------------------------------------------

local Block = torch.class("Block", nn.Module)

function Block:__init(width, heads)
   nn.Module.__init(self)
   self.heads = heads
   self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
   self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
   self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
end

function Block:forward(x)
   local n, length, width = table.unpack(x.shape)
   local q, k, v = table.unpack(self.qkv(self.norm1(x))
      :view(n, length, 3, self.heads, width // self.heads):permute(3, 1, 4, 2, 5):unbind(1))
   local attended = F.scaled_dot_product_attention(q, k, v, {is_causal = true})
   x = x + self.out(attended:transpose(2, 3):reshape(n, length, width))
   return x + self.mlp(self.norm2(x))
end

local GPT = torch.class("GPT", nn.Module)

function GPT:__init(classes)
   nn.Module.__init(self)
   self.letter = nn.Embedding(classes, opt.width)
   self.place = nn.Embedding(opt.context, opt.width)
   self.blocks = nn.Sequential()
   for _ = 1, opt.layers do self.blocks:add(Block(opt.width, opt.heads)) end
   self.norm = nn.LayerNorm(opt.width)
   self.head = nn.Linear(opt.width, classes, {bias = false})
   nn.init.normal_(self.letter.weight, {std = 0.02})
   nn.init.normal_(self.place.weight, {std = 0.02})
end

function GPT:forward(index)
   local places = torch.arange(1, index:size(2) + 1)
   return self.head(self.norm(self.blocks(self.letter(index) + self.place(places))))
end

local model = GPT(#letters)

local function loss_of(inputs, targets)
   return F.cross_entropy(model(inputs):view(-1, #letters), targets:reshape(-1))
end

-- Training ---------------------------------------------------------------------------------------

local count = 0
for _, parameter in ipairs(model:parameters()) do count = count + parameter:numel() end
print(("%d letters of text, %d of them different; %d parameters"):format(
   #text, #letters, count))

local optimizer = optim.AdamW(model:parameters(), {lr = opt.lr, weight_decay = 0.1})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, opt.steps + 1)
local bar = torch.utils.Progress {total = opt.steps, label = "training"}
local losses = {}
for step = 1, opt.steps do
   optimizer:zero_grad()
   local loss = loss_of(batch(train))
   loss:backward()
   nn.utils.clip_grad_norm_(model:parameters(), 1)
   optimizer:step()
   schedule:step()
   losses[step] = loss:item()
   bar:step(1, ("loss %.3f"):format(losses[step]))
end
bar:finish(("%d steps in %.0f s"):format(opt.steps, bar:elapsed()))
print(torch.utils.plot.curves(losses, {title = "loss, nats a letter", lines = 8}))

model:evaluate()
local sum = 0
torch.no_grad(function()
   for _ = 1, 10 do sum = sum + loss_of(batch(test)):item() end
end)
print(("on text that it has not seen: %.3f, a choice among %.1f letters"):format(
   sum / 10, math.exp(sum / 10)))

-- Writing ----------------------------------------------------------------------------------------

local function write(prompt, n)
   local _ <close> = torch.no_grad()
   local index = encode(prompt)
   io.write(prompt)
   for _ = 1, n do
      local seen = index[{{math.max(1, index:size(1) - opt.context + 1), -1}}]
      local scores = model(seen:unsqueeze(1))[{1, -1}]
      local choice
      if opt.temperature > 0 then
         choice = torch.multinomial(torch.softmax(scores / opt.temperature, 1), 1)
      else
         choice = scores:argmax(1, true)
      end
      io.write(letters[choice:item()])
      io.flush()
      index = torch.cat {index, choice}
   end
   print()
end

print "\nit writes:"
write(opt.prompt, opt.write)
