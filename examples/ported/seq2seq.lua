-- An encoder and a decoder with additive attention (Bahdanau et al. 2015) learn to write a row of
-- letters backwards:
--
--    tlua examples/ported/seq2seq.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("seq2seq.lua", "Learns to write backwards.")
parser:option("--steps", "training steps", 250)
parser:option("--length", "letters of a row", 6)
parser:option("--batch", "rows in a batch", 64)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local letters, SOS = 8, 9        -- letters are tokens 1 to 8; token 9 starts a row

local EncoderRNN, parent = torch.class("EncoderRNN", nn.Module)

function EncoderRNN:__init(input_size, hidden_size)
   parent.__init(self)
   self.embedding = nn.Embedding(input_size, hidden_size)
   self.gru = nn.GRU(hidden_size, hidden_size, {batch_first = true})
end

function EncoderRNN:forward(input) return self.gru(self.embedding(input)) end

local Attention = torch.class("Attention", nn.Module)

function Attention:__init(hidden_size)
   nn.Module.__init(self)
   self.Wa = nn.Linear(hidden_size, hidden_size)
   self.Ua = nn.Linear(hidden_size, hidden_size)
   self.Va = nn.Linear(hidden_size, 1)
end

-- Takes query (N, 1, H) and keys (N, L, H); returns the context (N, 1, H).
function Attention:forward(query, keys)
   local scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))):squeeze(3):unsqueeze(2)
   return torch.bmm(F.softmax(scores, -1), keys)
end

local DecoderRNN = torch.class("DecoderRNN", nn.Module)

function DecoderRNN:__init(hidden_size, output_size)
   nn.Module.__init(self)
   self.embedding = nn.Embedding(output_size, hidden_size)
   self.attention = Attention(hidden_size)
   self.gru = nn.GRU(2 * hidden_size, hidden_size, {batch_first = true})
   self.out = nn.Linear(hidden_size, output_size)
end

-- Returns scores (N, L, letters). With a target, its letters are the inputs; without one, each
-- predicted letter is the next input.
function DecoderRNN:forward(keys, hidden, target)
   local input = torch.full({keys:size(1), 1}, SOS, {dtype = torch.long})
   local outputs = {}
   for t = 1, opt.length do
      local embedded = self.embedding(input)
      local context = self.attention(hidden:permute(2, 1, 3), keys)
      local output
      output, hidden = self.gru(torch.cat({embedded, context}, 3), hidden)
      outputs[t] = self.out(output)
      input = target and target[{{}, {t, t}}] or outputs[t]:argmax(-1)
   end
   return torch.cat(outputs, 2)
end

local encoder, decoder = EncoderRNN(letters, 48), DecoderRNN(48, SOS)
local parameters = encoder:parameters()
for _, p in ipairs(decoder:parameters()) do table.insert(parameters, p) end
local optimizer = optim.Adam(parameters, {lr = 5e-3})
local criterion = nn.CrossEntropyLoss()

local function batch(n)
   local input = torch.randint(1, letters + 1, {n, opt.length})
   return input, input:flip(2)
end

for step = 1, opt.steps do
   local input, target = batch(opt.batch)
   optimizer:zero_grad()
   local keys, hidden = encoder(input)
   local scores = decoder(keys, hidden, target)
   local loss = criterion(scores:flatten(1, 2), target:flatten())
   loss:backward()
   optimizer:step()
   if step % 50 == 0 then print(("step %3d  loss %.4f"):format(step, loss:item())) end
end

local _ <close> = torch.no_grad()
local input, target = batch(200)
local written = decoder(encoder(input)):argmax(-1)
print(("rows written right: %.3f"):format(written:eq(target):all(2):float():mean():item()))
