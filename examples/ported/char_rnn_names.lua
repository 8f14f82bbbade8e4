-- A recurrent network learns to recognise which of three artificial languages a word comes from:
--
--    tlua examples/ported/char_rnn_names.lua
local torch = require "tlua"
local nn = torch.nn

local parser = torch.utils.options("char_rnn_names.lua", "Tells a word's language.")
parser:option("--steps", "words to learn from", 1500)
parser:option("--lr", "learning rate", 0.02)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)
math.randomseed(opt.seed)

-- Each language builds words from its own syllables.
local languages = {
   {name = "Alo", syllables = {"la", "lo", "mi", "na"}},
   {name = "Krat", syllables = {"kra", "tek", "gor", "zak"}},
   {name = "Shien", syllables = {"shi", "en", "wu", "xia"}},
}
local letters = "abcdefghijklmnopqrstuvwxyz"

local function random_word()
   local class = math.random(#languages)
   local word = {}
   for i = 1, math.random(2, 4) do word[i] = languages[class].syllables[math.random(4)] end
   return class, table.concat(word)
end

local function word_to_tensor(word)
   local tensor = torch.zeros(#word, 1, #letters)
   for i = 1, #word do
      local position = letters:find(word:sub(i, i), 1, true)
      tensor[{i, 1, position}] = 1
   end
   return tensor
end

local RNN, parent = torch.class("RNN", nn.Module)

function RNN:__init(input_size, hidden_size, output_size)
   parent.__init(self)
   self.hidden_size = hidden_size
   self.i2h = nn.Linear(input_size, hidden_size)
   self.h2h = nn.Linear(hidden_size, hidden_size)
   self.h2o = nn.Linear(hidden_size, output_size)
   self.softmax = nn.LogSoftmax(2)
end

function RNN:forward(input, hidden)
   hidden = torch.tanh(self.i2h(input) + self.h2h(hidden))
   return self.softmax(self.h2o(hidden)), hidden
end

function RNN:init_hidden() return torch.zeros(1, self.hidden_size) end

local rnn = RNN(#letters, 32, #languages)
local criterion = nn.NLLLoss()

local function evaluate(word)
   local hidden, output = rnn:init_hidden(), nil
   local line = word_to_tensor(word)
   for i = 1, line:size(1) do output, hidden = rnn(line[i], hidden) end
   return output
end

local sum = 0
for step = 1, opt.steps do
   local class, word = random_word()
   rnn:zero_grad()
   local loss = criterion(evaluate(word), torch.tensor {class})
   loss:backward()
   nn.utils.clip_grad_norm_(rnn:parameters(), 1)
   torch.no_grad(function()
      for _, p in ipairs(rnn:parameters()) do p:add_(p.grad, {alpha = -opt.lr}) end
   end)
   sum = sum + loss:item()
   if step % 500 == 0 then
      print(("step %4d  loss %.4f"):format(step, sum / 500))
      sum = 0
   end
end

local right = 0
local _ <close> = torch.no_grad()
for _ = 1, 200 do
   local class, word = random_word()
   if evaluate(word):argmax(2):item() == class then right = right + 1 end
end
print(("accuracy: %.3f"):format(right / 200))
