-- An LSTM with tied weights learns the order of words in an artificial language, by truncated
-- backpropagation through time:
--
--    tlua examples/ported/word_language_model.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("word_language_model.lua", "Learns which word follows which.")
parser:option("--epochs", "passes over the text", 4)
parser:option("--bptt", "words in a row that gradients pass through", 16)
parser:option("--batch", "texts side by side", 16)
parser:option("--lr", "learning rate of SGD", 5)
parser:option("--clip", "largest norm of the gradients", 0.25)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)
math.randomseed(opt.seed)

-- A sentence of the language has a subject, a verb and an object. A cat never barks.
local verbs = {cat = {"sees", "likes"}, dog = {"barks at", "likes"}, bird = {"sees", "flies over"}}
local animals = {"cat", "dog", "bird"}
local text = {}
for _ = 1, 1500 do
   local who, whom = animals[math.random(3)], animals[math.random(3)]
   local verb = verbs[who][math.random(2)]
   local sentence = ("the %s %s the %s ."):format(who, verb, whom)
   for word in sentence:gmatch "%S+" do text[#text + 1] = word end
end

local Dictionary = torch.class "Dictionary"

function Dictionary:__init()
   self.word2idx, self.idx2word = {}, {}
end

function Dictionary:add_word(word)
   if not self.word2idx[word] then
      table.insert(self.idx2word, word)
      self.word2idx[word] = #self.idx2word
   end
   return self.word2idx[word]
end

local dictionary = Dictionary()
local ids = {}
for i, word in ipairs(text) do ids[i] = dictionary:add_word(word) end
local ntokens = #dictionary.idx2word

-- Cuts a text into `bsz` parts of equal length, and arranges them as the columns of (words, parts).
local function batchify(data, bsz)
   local nbatch = data:size(1) // bsz
   return data:narrow(1, 1, nbatch * bsz):view(bsz, -1):t():contiguous()
end

local RNNModel, parent = torch.class("RNNModel", nn.Module)

function RNNModel:__init(ntoken, nhid, nlayers, dropout)
   parent.__init(self)
   self.drop = nn.Dropout(dropout)
   self.encoder = nn.Embedding(ntoken, nhid)
   self.rnn = nn.LSTM(nhid, nhid, nlayers, {dropout = dropout})
   self.decoder = nn.Linear(nhid, ntoken)
   self.decoder.weight = self.encoder.weight
   nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
   nn.init.zeros_(self.decoder.bias)
end

function RNNModel:forward(input, hidden)
   local output, state = self.rnn(self.drop(self.encoder(input)), hidden)
   local decoded = self.decoder(self.drop(output))
   return F.log_softmax(decoded:view(-1, ntokens), 2), state
end

local function repackage_hidden(state)
   return {state[1]:detach(), state[2]:detach()}
end

local model = RNNModel(ntokens, 32, 2, 0.1)
local data = batchify(torch.tensor(ids), opt.batch)
local optimizer = optim.SGD(model:parameters(), {lr = opt.lr})

for epoch = 1, opt.epochs do
   model:train()
   local hidden, total, count
   total, count = 0, 0
   for i = 1, data:size(1) - 1, opt.bptt do
      local length = math.min(opt.bptt, data:size(1) - i)
      local input, target = data:narrow(1, i, length), data:narrow(1, i + 1, length):reshape(-1)
      local output
      optimizer:zero_grad()
      output, hidden = model(input, hidden)
      hidden = repackage_hidden(hidden)
      local loss = F.nll_loss(output, target)
      loss:backward()
      nn.utils.clip_grad_norm_(model:parameters(), opt.clip)
      optimizer:step()
      total, count = total + loss:item(), count + 1
   end
   local mean = total / count
   print(("epoch %d  loss %.3f  perplexity %.2f"):format(epoch, mean, math.exp(mean)))
end

-- Writes some sentences with the trained network.
model:eval()
local words = {}
torch.no_grad(function()
   local input = torch.tensor {{dictionary.word2idx["the"]}}
   local hidden, output
   for _ = 1, 18 do
      output, hidden = model(input, hidden)
      input = torch.multinomial(output:exp(), 1)
      words[#words + 1] = dictionary.idx2word[input:item()]
   end
end)
print("the " .. table.concat(words, " "))
